import mujoco
import numpy as np
import pytest

from temper.utils.environment_sketch import sketch

# The camera stands 10 m before the origin and looks along y; 10 m away, 10 m fill its height.
_SCENE = """
<mujoco>
  <worldbody>
    <camera name="front" pos="0 -10 0" xyaxes="1 0 0 0 0 1" fovy="53.13010235"/>
    {geoms}
  </worldbody>
</mujoco>
"""
_SKY = (66, 99, 137)


def _draw(geoms, height=100, width=200, camera=0):
  model = mujoco.MjModel.from_xml_string(_SCENE.format(geoms=geoms))
  data = mujoco.MjData(model)
  mujoco.mj_forward(model, data)
  return sketch(model, data, height, width, camera)


def _covered(frame):
  """Returns the rows and columns that the scene covers, as (first, last) each."""
  mask = np.any(np.abs(frame.astype(int) - _SKY) > 40, axis=-1)
  rows, columns = np.where(mask.any(axis=1))[0], np.where(mask.any(axis=0))[0]
  return (rows[0], rows[-1]), (columns[0], columns[-1])


@pytest.mark.parametrize(
  "geom, half_height, half_width",
  [
    ('type="sphere" size="1"', 1, 1),
    ('type="box" size="2 0.01 1"', 1, 2),
    ('type="capsule" size="0.5 1.5"', 2, 0.5),
    ('type="cylinder" size="0.2 1.5"', 1.5, 0.2),
    ('type="ellipsoid" size="3 0.1 1"', 1, 3),
  ],
)
def test_outline_of_each_shape(geom, half_height, half_width):
  rows, columns = _covered(_draw(f'<geom {geom} pos="2 0 1" rgba="1 0 0 1"/>'))
  # 10 pixels a metre; the centre (2, 1) is at column 120 and row 40.
  np.testing.assert_allclose(rows, (40 - 10 * half_height, 39 + 10 * half_height), atol=1.5)
  np.testing.assert_allclose(columns, (120 - 10 * half_width, 119 + 10 * half_width), atol=1.5)


def test_near_things_hide_far_ones():
  near = '<geom type="sphere" size="1" pos="0 -1 0" rgba="1 0 0 1"/>'
  far = '<geom type="sphere" size="2" pos="0 3 0" rgba="0 1 0 1"/>'
  for geoms in (near + far, far + near):
    frame = _draw(geoms)
    assert frame[50, 100, 0] > frame[50, 100, 1]
    assert frame[50, 113, 1] > frame[50, 113, 0]


def test_floor_reaches_from_below_the_camera_to_the_horizon():
  frame = _draw('<geom type="plane" size="0 0 1" pos="0 0 -1"/><geom size="1"/>')
  differs = np.any(np.abs(frame[:, 0].astype(int) - _SKY) > 5, axis=-1)
  assert not differs[:49].any()
  assert differs[60:].all()


def test_what_is_not_drawn():
  hidden = [
    '<geom size="1" group="3"/>',
    '<geom size="1" rgba="1 0 0 0"/>',
    '<geom size="1" pos="0 -20 0"/>',
    '<geom type="plane" size="0 0 1" pos="0 0 1"/>',
  ]
  for geom in hidden:
    assert np.all(_draw(geom) == _SKY), geom


def test_unknown_camera():
  with pytest.raises(ValueError, match="camera is 1; the model has cameras 0 to 0"):
    _draw('<geom size="1"/>', camera=1)
