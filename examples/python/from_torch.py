#!/usr/bin/env python3
"""from_torch.py MODEL.pt CHECKPOINT - what torch.save wrote, as a checkpoint of dcp.h; a directory of torch DCP too.

Tensors of nested dicts and lists are named by their path, such as model.layers.0.wq; what is no tensor (numbers, texts,
None) and how all of it is nested goes into the field "torch", so that to_torch.py gives it back equal. Loaded with
weights_only=True: no code of the file runs. A directory of torch.distributed.checkpoint is put together first, from any
number of ranks. Needs torch, and libdcp.so (`make lib`; DCP_LIBRARY names it). The file is mapped, not read whole.
"""
import json
import os
import sys
import tempfile

import dcp
import torch


def shape_of(value, path, tensors):
    """What is nested how, as JSON; tensors are put into the dict under their paths."""
    if isinstance(value, torch.Tensor):
        tensors[path or "tensor"] = value
        return {"tensor": path or "tensor"}
    if isinstance(value, dict):
        return {"dict": [[key, shape_of(member, ("%s.%s" % (path, key)).lstrip("."), tensors)]
                         for key, member in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [shape_of(member, ("%s.%d" % (path, i)).lstrip("."), tensors) for i, member in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    sys.exit("from_torch.py: %s: a %s cannot be kept" % (path, type(value).__name__))


def load(source, directory):
    if os.path.isdir(source):
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        whole = os.path.join(directory, "whole.pt")
        dcp_to_torch_save(source, whole)
        source = whole
    return torch.load(source, map_location="cpu", weights_only=True, mmap=True)


def main(source, target):
    beside = os.path.dirname(os.path.abspath(target))           # where there is room for as much
    os.makedirs(beside, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=beside) as directory:
        tensors = {}
        nested = shape_of(load(source, directory), "", tensors)
        dcp.Library().save(target, tensors, fields={"torch": json.dumps(nested)}, overwrite=True)
    print("%s: %d tensors" % (target, len(tensors)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
