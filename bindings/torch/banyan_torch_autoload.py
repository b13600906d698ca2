"""Makes the backend "banyan" known to torch.distributed without `import banyan_torch`.

PyTorch 2.5 and later call register() when they are imported (entry point "torch.backends"; forbidden by
TORCH_DEVICE_BACKEND_AUTOLOAD=0), or, where they can, when somebody first asks for the backend (entry point
"torch.distributed.backends"). banyan_torch itself is imported only when a group is made: whoever does not use it pays
nothing, and a build that does not fit the PyTorch of the day harms nobody else.
"""


def register():
    """Once per process; later calls do nothing."""
    import torch.distributed as dist

    if dist.is_available() and "BANYAN" not in dist.Backend._plugins:
        dist.Backend.register_backend("banyan", _create, extended_api=True, devices=["cpu"])


def _create(asked, options):
    import banyan_torch

    return banyan_torch._create(asked, options)
