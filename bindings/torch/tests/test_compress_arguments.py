"""What banyan_torch.compress() refuses, and in which words."""

import math
import time

import torch.distributed as dist

import banyan_torch
from models import batch_of, loss_of, made, Net, parallel
from ranks import not_by_gloo, on_ranks
from test_compress import CompressTest


@not_by_gloo("has no codes")
class Arguments(CompressTest):
    @on_ranks(3)
    def test_options_that_differ_name_the_ranks(self):
        """At once, and the next attempt works."""
        begin = time.monotonic()
        replica = parallel(made(Net), process_group=self.tcp())
        for mine, words in (
                (("int8", {} if self.rank == 0 else {"box_ranks": 1}),
                 "box_ranks: left out on rank 0; 1 on ranks 1, 2"),
                (("topk:1%" if self.rank < 2 else "topk:2%", {}), "codec: topk:1% on ranks 0, 1; topk:2% on rank 2"),
                (("topk:1%", {"momentum": 0.9 if self.rank else 0.8}), "momentum: 0.8 on rank 0; 0.9 on ranks 1, 2"),
                (("topk:1%", {"warm_up": self.rank // 2}), "warm_up: 0 on ranks 0, 1; 1 on rank 2"),
                (("powersgd:2", {"seed": self.rank, "dense_steps": 0}), "seed: 0 on rank 0; 1 on rank 1; 2 on rank 2"),
                (("auto", {"steps": 4 + self.rank // 2}), "steps: 4 on ranks 0, 1; 5 on rank 2"),
                (("int8", {"residual": self.rank > 0}), "residual: False on rank 0; True on ranks 1, 2")):
            with self.assertRaisesRegex(banyan_torch.MismatchError, f"differ in {words}$"):
                banyan_torch.compress(replica, mine[0], **mine[1])
        banyan_torch.compress(replica, "int8")
        loss_of(replica, batch_of(self.rank, 0)).backward()
        self.assertLess(time.monotonic() - begin, 60)

    @on_ranks(1)
    def test_wrong_ones_are_refused_in_one_line(self):
        replica = parallel(made(Net), process_group=self.tcp())
        with self.assertRaisesRegex(ValueError, "^[^\n]*int7[^\n]*int8[^\n]*none$"):
            banyan_torch.compress(replica, "int7")
        for wrong in ("topk", "topk:", "topk:1", "topk:0%", "topk:101%", "topk:x%", "topk:1%int8", "topk:-1%"):
            with self.assertRaisesRegex(ValueError, "^[^\n]*'" + wrong + "'[^\n]*topk:1%"):
                banyan_torch.compress(replica, wrong)
        with self.assertRaisesRegex(ValueError, "int7"):
            banyan_torch.compress(replica, "topk:1%+int7")
        for options in ({"momentum": 1.0}, {"momentum": -0.1}, {"momentum": math.nan}, {"clip": 1.0}):
            with self.assertRaisesRegex(ValueError, "momentum"):
                banyan_torch.compress(replica, "topk:1%", **options)
        for options, words in (({"masking": 0}, "there is none"), ({"masking": 2, "momentum": 0.9}, "0 or 1")):
            with self.assertRaisesRegex(ValueError, words):
                banyan_torch.compress(replica, "topk:1%", **options)
        with self.assertRaisesRegex(ValueError, "^int8 has no option 'momentum'$"):
            banyan_torch.compress(replica, "int8", momentum=0.9)
        with self.assertRaisesRegex(ValueError, r"has no option 'dense_step' \(did you mean 'dense_steps'\?\)$"):
            banyan_torch.compress(replica, "powersgd:2", dense_step=3)
        self.assertEqual(banyan_torch.Compression(replica, "topk:0.10%+bf16").codec, "topk:0.1%+bfloat16")
        with self.assertRaisesRegex(TypeError, "^the option momentum of a codec is a number, not 'much'$"):
            banyan_torch.compress(replica, "topk:1%", momentum="much")
        with self.assertRaisesRegex(TypeError, "takes a model in DistributedDataParallel, not a Net"):
            banyan_torch.compress(replica.module, "int8")
        with self.assertRaisesRegex(ValueError, "backend is not banyan"):
            banyan_torch.compress(parallel(made(Net), process_group=dist.new_group(backend="gloo")), "int8")
        compression = banyan_torch.compress(replica, "1bit")
        with self.assertRaisesRegex(RuntimeError, "can only be called once"):
            banyan_torch.compress(replica, "int8")
        self.assertEqual(compression.codec, "sign")
        self.assertEqual(repr(compression), "Compression('sign', with residuals, 6 parameters of 581 values)")

    @on_ranks(1)
    def test_a_hook_for_another_model_says_so(self):
        replica = parallel(made(Net), process_group=self.tcp())
        replica.register_comm_hook(banyan_torch.Compression(made(Net), "int8", group=replica.process_group),
                                   banyan_torch.compress_hook)
        with self.assertRaisesRegex(RuntimeError, "not of the model which the compression was made for"):
            loss_of(replica, batch_of(0, 0)).backward()
