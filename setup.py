"""Builds `temper-rl`: agents/, utils/ and launchers/ become temper.agents and so on."""

import os

import setuptools

_FOLDERS = ("agents", "utils", "launchers")
_HERE = os.path.dirname(os.path.abspath(__file__))


def _packages():
  """Returns every importable folder under its name inside the `temper` namespace."""
  names = []
  for folder in _FOLDERS:
    names.append(f"temper.{folder}")
    inner = setuptools.find_packages(os.path.join(_HERE, folder))
    names += [f"temper.{folder}.{name}" for name in inner]
  return names


with open(os.path.join(_HERE, "README.md"), encoding="utf-8") as readme:
  _LONG_DESCRIPTION = readme.read()

_GYM = ["gymnasium[classic-control]>=1.0,<2"]
_DM_CONTROL = ["dm-control>=1.0.16"]
_PLOTS = ["imageio>=2.30", "matplotlib>=3.7"]
# To write films as MP4 with `temper record`; its wheels hold the encoder.
_VIDEO = ["imageio-ffmpeg>=0.5"]
_DATASETS = [
  "h5py>=3.8",
  "minari>=0.5,<0.6",
  "tensorflow-datasets>=4.9",
  # Newer ones are generated for a protobuf that TensorFlow 2.12 cannot use.
  "tensorflow-metadata<1.18",
]
# To write policies as ONNX, and to run them.
_ONNX = ["onnx>=1.16", "onnxruntime>=1.17", "tf2onnx>=1.16"]

setuptools.setup(
  name="temper-rl",
  version="0.1.0",
  description="Actor-critic agents for continuous control on TensorFlow 2, in Acme's grammar.",
  long_description=_LONG_DESCRIPTION,
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  license_files=["LICENSE"],
  python_requires=">=3.9,<3.11",
  packages=_packages(),
  # The parent `temper` has no __init__.py: it is a namespace that holds exactly these folders.
  package_dir={f"temper.{folder}": folder for folder in _FOLDERS},
  # Whatever an agent or a launcher keeps beside its modules: pages, presets.
  package_data={"": ["*.md", "*.json"]},
  include_package_data=False,
  install_requires=[
    "absl-py>=1.4",
    "cloudpickle>=2",
    # dm-acme pins a Launchpad that TensorFlow 2.12 cannot load, so a resolver refuses this list.
    # requirements/runtime.txt holds the whole set, to be installed with --no-deps.
    "dm-acme==0.4.0",
    "dm-env>=1.6",
    "dm-launchpad-nightly==0.5.2.dev20230301",
    "dm-reverb==0.11.0",
    "dm-sonnet==2.0.2",
    "dm-tree>=0.1.8",
    # dm-acme's wrappers import the old gym and Pillow, whichever environment is used.
    "gym==0.26.2",
    "jax==0.4.30",
    "jaxlib==0.4.30",
    "ml-collections>=0.1.1",
    "numpy<1.24",
    "pillow>=10",
    "portpicker>=1.6",
    "protobuf>=4.25,<5",
    "psutil>=5.9",
    "scipy>=1.9",
    "tensorboard>=2.12,<2.13",
    "tensorflow==2.12.1",
    "tensorflow-probability==0.20.1",
    "tqdm>=4.60",
    "trfl==1.2.0",
  ],
  extras_require={
    "gym": _GYM,
    "dm_control": _DM_CONTROL,
    "plots": _PLOTS,
    "video": _VIDEO,
    "datasets": _DATASETS,
    "onnx": _ONNX,
    "all": _GYM + _DM_CONTROL + _PLOTS + _VIDEO + _DATASETS + _ONNX,
  },
  entry_points={"console_scripts": ["temper = temper.launchers.main:main"]},
)
