#!/usr/bin/env python3
"""to_torch.py CHECKPOINT MODEL.pt - a checkpoint of dcp.h, from any number of ranks, as torch.load reads it.

One that from_torch.py made comes back nested as it was; any other is a flat dict of its tensors. Every byte is compared
with its SHA-256 first. Needs torch and numpy. Tensors of a megabyte or more are mapped, not read into memory.
"""
import json
import sys

import dcp
import torch


def nested_of(shape, tensors):
    """The opposite of shape_of in from_torch.py."""
    (kind, content), = shape.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "value":
        return content
    if kind == "dict":
        return {key: nested_of(member, tensors) for key, member in content}
    return (list if kind == "list" else tuple)(nested_of(member, tensors) for member in content)


def main(source, target):
    with dcp.open(source) as checkpoint:
        tensors = checkpoint.load(torch=True)
        shape = checkpoint.fields.get("torch")
        torch.save(nested_of(json.loads(shape), tensors) if shape else tensors, target)
    print("%s: %d tensors" % (target, len(tensors)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
