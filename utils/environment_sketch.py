"""Sketches a MuJoCo scene without OpenGL, for machines that have no driver for it.

A geom is drawn as the convex hull of its projected surface, filled, far ones first. That is its
exact outline for MuJoCo's primitive shapes; there is no light, shadow or texture, and what belongs
to no geom (tendons, skins, sites) is left out.
"""

import importlib
from typing import Any

import numpy as np

_SKY = (66, 99, 137)
_FLOOR = ((38, 58, 92), (48, 70, 108))
_FLOOR_TILES = 20  # Tiles along each side of the square of floor that is drawn.
_FLOOR_EXTENTS = 10  # Half the side of that square, in extents of the model.
_NEAREST = 0.02  # Metres before the camera; what is nearer is not drawn.
_OVERSAMPLING = 2  # Frames are drawn this much larger and shrunk, for smooth edges.
_LIGHT, _SHADE = 310, 140  # What a colour in [0, 1] is multiplied by inside and on the outline.
_HIDDEN_GROUPS = 3  # MuJoCo does not draw geoms of this group and above unless asked to.


def sketch(model: Any, data: Any, height: int, width: int, camera: int) -> np.ndarray:
  """Draws a scene as one of its cameras sees it.

  Args:
    model: `mujoco.MjModel`.
    data: `mujoco.MjData` of that model, after a forward step.
    height: height of the picture, pixels.
    width: width of the picture, pixels.
    camera: index of a camera of the model.

  Returns:
    uint8 `[height, width, 3]`.

  Raises:
    ImportError: if Pillow is not installed.
    ValueError: if the model has no such camera.
  """
  if not 0 <= camera < model.ncam:
    raise ValueError(f"camera is {camera}; the model has cameras 0 to {model.ncam - 1}.")
  image_module, draw_module = _pillow()
  size = (width * _OVERSAMPLING, height * _OVERSAMPLING)
  canvas = image_module.new("RGB", size, _SKY)
  draw = draw_module.Draw(canvas)
  view = _View(data.cam_xpos[camera], data.cam_xmat[camera], model.cam_fovy[camera], size)
  plane_type = importlib.import_module("mujoco").mjtGeom.mjGEOM_PLANE
  solids = []
  for geom in range(model.ngeom):
    colour = _colour(model, geom)
    if model.geom_group[geom] >= _HIDDEN_GROUPS or colour[3] == 0:
      continue
    if model.geom_type[geom] == plane_type:
      _draw_floor(draw, view, model, data, geom)
      continue
    points = view.to_camera(_surface(model, data, geom))
    if len(points) and points[:, 2].max() < -_NEAREST:
      solids.append((points[:, 2].mean(), _hull(view.to_pixels(points)), colour))
  for _, outline, colour in sorted(solids, key=lambda solid: solid[0]):
    fill = tuple(int(c) for c in np.minimum(colour[:3] * _LIGHT, 255))
    edge = tuple(int(c) for c in colour[:3] * _SHADE)
    draw.polygon([tuple(point) for point in outline], fill=fill, outline=edge, width=2)
  return np.asarray(canvas.resize((width, height), image_module.LANCZOS))


class _View:
  """A pinhole camera: world to camera coordinates (it looks along -z), and these to pixels."""

  def __init__(self, position: np.ndarray, rotation: np.ndarray, fovy: float, size: Any):
    self.position = np.asarray(position)
    self._rotation = np.asarray(rotation).reshape(3, 3)  # Columns: right, up, backwards.
    self._centre = np.asarray(size) / 2
    self._focal = self._centre[1] / np.tan(np.radians(fovy) / 2)  # Pixels.

  def to_camera(self, points: np.ndarray) -> np.ndarray:
    """Maps world points `[N, 3]` to camera coordinates `[N, 3]`."""
    return (points - self.position) @ self._rotation

  def to_pixels(self, points: np.ndarray) -> np.ndarray:
    """Maps camera points `[N, 3]` before the camera to pixels `[N, 2]`, x right and y down."""
    return self._centre + self._focal * points[:, :2] * (1, -1) / -points[:, 2:]


def _draw_floor(draw: Any, view: _View, model: Any, data: Any, geom: int) -> None:
  """Draws the part of a plane around the camera as a chequered floor, unless seen from behind."""
  origin, axes = data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
  camera = (view.position - origin) @ axes
  if camera[2] <= 0:
    return
  reach = _FLOOR_EXTENTS * model.stat.extent
  side = 2 * reach / _FLOOR_TILES
  half = np.where(model.geom_size[geom, :2] > 0, model.geom_size[geom, :2], np.inf)
  low = np.maximum(camera[:2] - reach, -half)
  high = np.minimum(camera[:2] + reach, half)
  if np.any(low >= high):
    return
  # Counted from the plane's origin, so that tiles stand still while a camera moves over them.
  first = np.floor(low / side).astype(int)
  edges = [
    np.clip(np.arange(first[i], np.ceil(high[i] / side) + 1) * side, low[i], high[i])
    for i in range(2)
  ]
  grid = np.stack(np.meshgrid(*edges, indexing="ij"), axis=-1)  # [columns + 1, rows + 1, 2]
  world = origin + grid @ axes[:, :2].T
  points = view.to_camera(world.reshape(-1, 3)).reshape(world.shape)
  corners = (points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:])
  tiles = np.stack(corners, axis=2)  # [columns, rows, 4, 3]
  for column, row in np.argwhere(np.any(tiles[..., 2] < -_NEAREST, axis=-1)):
    pixels = view.to_pixels(_clip(tiles[column, row]))
    colour = _FLOOR[(column + row + int(first.sum())) % 2]
    draw.polygon([tuple(point) for point in pixels], fill=colour)


def _clip(polygon: np.ndarray) -> np.ndarray:
  """Cuts off the part of a polygon `[N, 3]` in camera coordinates that is not before the camera."""
  if np.all(polygon[:, 2] < -_NEAREST):
    return polygon
  kept = []
  for here, there in zip(polygon, np.roll(polygon, -1, axis=0)):
    inside = here[2] < -_NEAREST
    if inside:
      kept.append(here)
    if inside != (there[2] < -_NEAREST):
      share = (-_NEAREST - here[2]) / (there[2] - here[2])
      cut = here + share * (there - here)
      # Just inside, whatever the rounding.
      kept.append(np.array([cut[0], cut[1], -_NEAREST]))
  return np.array(kept)


def _surface(model: Any, data: Any, geom: int) -> np.ndarray:
  """Returns world points `[N, 3]` whose convex hull is the geom; none for a height field."""
  kinds = importlib.import_module("mujoco").mjtGeom
  kind, size = model.geom_type[geom], model.geom_size[geom]
  sphere = _unit_sphere()
  if kind == kinds.mjGEOM_SPHERE:
    local = sphere * size[0]
  elif kind == kinds.mjGEOM_ELLIPSOID:
    local = sphere * size
  elif kind == kinds.mjGEOM_CAPSULE:
    ends = np.array([[0, 0, size[1]], [0, 0, -size[1]]])
    local = np.concatenate([sphere * size[0] + end for end in ends])
  elif kind == kinds.mjGEOM_CYLINDER:
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles), np.ones_like(angles)], axis=-1)
    local = np.concatenate([ring, ring * (1, 1, -1)]) * size[[0, 0, 1]]
  elif kind == kinds.mjGEOM_BOX:
    local = np.array(np.meshgrid(*[(-s, s) for s in size])).reshape(3, -1).T
  elif kind == kinds.mjGEOM_MESH:
    mesh = model.geom_dataid[geom]
    start = model.mesh_vertadr[mesh]
    local = model.mesh_vert[start : start + model.mesh_vertnum[mesh]]
  else:
    return np.zeros((0, 3))
  return data.geom_xpos[geom] + local @ data.geom_xmat[geom].reshape(3, 3).T


def _unit_sphere() -> np.ndarray:
  """Returns points spread over the unit sphere, `[N, 3]`."""
  polar, around = np.meshgrid(np.linspace(0, np.pi, 9), np.linspace(0, 2 * np.pi, 16, False))
  return np.stack(
    [np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=-1
  ).reshape(-1, 3)


def _hull(points: np.ndarray) -> np.ndarray:
  """Returns the convex hull of points `[N, 2]` in order, by Andrew's monotone chain."""
  ordered = sorted(map(tuple, points))
  sides = []
  for sequence in (ordered, ordered[::-1]):
    side: list[Any] = []
    for point in sequence:
      while len(side) > 1 and _turn(side[-2], side[-1], point) <= 0:
        side.pop()
      side.append(point)
    sides += side[:-1]
  return np.array(sides or ordered[:1])


def _turn(a: Any, b: Any, c: Any) -> float:
  """Returns a positive number if the way from a over b to c turns left."""
  return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _colour(model: Any, geom: int) -> np.ndarray:
  """Returns the geom's colour as red, green, blue, opacity in [0, 1]."""
  material = model.geom_matid[geom]
  return model.geom_rgba[geom] if material < 0 else model.mat_rgba[material]


def _pillow() -> tuple[Any, Any]:
  """Imports what draws polygons."""
  try:
    return importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageDraw")
  except ImportError as error:
    message = "Drawing without OpenGL needs Pillow: pip install 'temper-rl[plots]'."
    raise ImportError(message) from error
