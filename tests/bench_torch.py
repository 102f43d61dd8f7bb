"""bench_torch.py [GIB [DIRECTORY]]: what PyTorch takes for the tensors of bench_gpu.c; for `make bench-gpu`."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

gib = float(sys.argv[1]) if len(sys.argv) > 1 else 8
directory = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("TMPDIR", ".")
if not torch.cuda.is_available():
    sys.exit("torch is here, but finds no GPU")
size = int(gib * 2**30) // 8
tensors = {name: torch.full((size,), i + 1, dtype=torch.uint8, device="cuda") for i, name in enumerate("abcdefgh")}


def measured(what, function):
    torch.cuda.synchronize()
    start = time.monotonic()
    result = function()
    seconds = time.monotonic() - start
    print(f"{what:<52} {seconds:8.3f} s {8 * size / seconds / 1e9:8.2f} GB/s", flush=True)
    return result


path = os.path.join(directory, "dcp_bench_torch")
for again in ("", " (again)"):
    measured("torch.save" + again, lambda: torch.save(tensors, path + ".pt"))
measured("torch.load to the device", lambda: torch.load(path + ".pt", map_location="cuda", weights_only=True))
os.remove(path + ".pt")
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
for again in ("", " (again)"):
    future = measured("torch.distributed.checkpoint.async_save, its stall" + again,
                      lambda: dcp.async_save(tensors, checkpoint_id=path))
    measured("  and until it is written", future.result)
dist.destroy_process_group()
