"""Fabrics: where they come from, edits, what they say of themselves."""
import json
import os
import pickle
import tempfile
import unittest
import xml.etree.ElementTree

import banyan

TRIANGLE = "a <-> b 1GB/s 2us; b <-> c 2GB/s; a <-> c 1GB/s"


class Sources(unittest.TestCase):
    def test_names_texts_dicts_and_files_make_fabrics(self):
        fabric = banyan.Fabric(TRIANGLE)
        self.assertEqual(fabric.ranks, ["a", "b", "c"])
        self.assertEqual(banyan.Fabric(fabric.to_dict()), fabric)
        self.assertEqual(banyan.Fabric.from_json(fabric.to_json()), fabric)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "triangle.json")
            fabric.save(path)
            loaded = banyan.Fabric(path)
            self.assertEqual((loaded, loaded.name), (fabric, path))

    def test_two_fabrics_never_have_one_name(self):
        path = os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples", "gpu-topo.txt")
        names = [banyan.Fabric(f"{path}@25GB/s", **more).name
                 for more in ({}, {"boxes": 2, "nic": "400Gb/s"}, {"boxes": 3, "nic": "400Gb/s"},
                              {"boxes": 2, "nic": "200Gb/s"})]
        self.assertEqual(names[1], f"{path}@25GB/s --boxes 2 --nic 400Gb/s")
        self.assertEqual(len(set(names)), 4)
        self.assertIn("--boxes 2", repr(banyan.plan("allgather", banyan.Fabric("dgx-a100:2", name=names[1]))))

    def test_every_named_fabric_that_is_complete_can_be_made(self):
        made = 0
        for spec, description in banyan.list_fabrics():
            self.assertTrue(description)
            if "[" not in spec and spec.split(":")[-1].isdigit():
                self.assertGreaterEqual(len(banyan.Fabric(spec).ranks), 2)
                made += 1
        self.assertGreaterEqual(len(banyan.list_fabrics()), 10)

    def test_links_have_their_figures(self):
        links = banyan.Fabric(TRIANGLE).links
        self.assertEqual(len(links), 6)
        self.assertEqual(links[0], banyan.Link("a", "b", 10**9, 2e-6, 0.0))
        self.assertEqual(links[1].source, "b")
        guess = banyan.Fabric("a <-> b 6GB/s assumed; b <-> a 1GB/s")
        self.assertEqual([link.assumed for link in guess.links], [True, True, False, False])
        again = banyan.Fabric.from_json(guess.to_json())
        self.assertEqual([link.assumed for link in again.links], [True, True, False, False])
        self.assertEqual([link.assumed for link in guess.degrade("a-b", "6GB/s").links], [False] * 4)
        self.assertIn("stroke-dasharray", guess.svg())
        bound = banyan.bound("allgather", guess)
        self.assertEqual([link.bandwidth for link in bound.assumed], [6 * 10**9])
        self.assertEqual(banyan.bound("allgather", guess.degrade("a-b", "6GB/s")).assumed, [])

    def test_switches_are_no_ranks(self):
        fabric = banyan.Fabric("dgx-a100:2")
        self.assertEqual((len(fabric.ranks), len(fabric.switches), len(fabric.links)), (16, 3, 64))
        self.assertEqual(len(fabric.nodes), 19)


class Edits(unittest.TestCase):
    def test_an_edit_makes_another_fabric(self):
        fabric = banyan.Fabric(TRIANGLE)
        cut = fabric.fail("a-b")
        self.assertEqual(len(fabric.links), 6)
        self.assertEqual({(link.source, link.target) for link in cut.links},
                         {("b", "c"), ("c", "b"), ("a", "c"), ("c", "a")})
        self.assertEqual(cut.name, f"{TRIANGLE} --fail a-b")

    def test_bandwidths_are_texts_or_numbers(self):
        fabric = banyan.Fabric(TRIANGLE)
        for bandwidth in ("500MB/s", 500_000_000):
            slow = fabric.degrade("a-b", bandwidth)
            self.assertEqual([link.bandwidth for link in slow.links[:2]], [500_000_000] * 2)

    def test_a_removed_node_takes_its_links(self):
        fabric = banyan.Fabric(TRIANGLE).remove("c")
        self.assertEqual(fabric.ranks, ["a", "b"])
        self.assertEqual(len(fabric.links), 2)

    def test_switches_are_given_powers(self):
        fabric = banyan.Fabric("dgx-h100:2").in_network("nvsw*")
        self.assertEqual(fabric, banyan.Fabric("dgx-h100:2+nvls"))
        self.assertEqual([node.name for node in fabric.nodes if node.multicast and node.reduce], ["nvsw0", "nvsw1"])
        self.assertEqual(banyan.plan("allreduce", fabric).throughput, 400_000_000_000)
        half = fabric.in_network("nvsw0", "multicast").in_network("nvsw1", "none")
        self.assertEqual([(node.multicast, node.reduce) for node in half.nodes[16:]],
                         [(True, False), (False, False), (False, False)])

    def test_edits_add_up_as_on_the_command_line(self):
        fabric = banyan.Fabric("dgx-a100:4").fail("gpu3-ib0").degrade("gpu0-nvsw0", "100GB/s")
        self.assertNotEqual(fabric.fingerprint, banyan.Fabric("dgx-a100:4").fingerprint)
        self.assertLess(banyan.plan("allgather", fabric).throughput,
                        banyan.plan("allgather", "dgx-a100:4").throughput)


class Words(unittest.TestCase):
    def test_equal_fabrics_are_equal_whatever_their_names(self):
        self.assertEqual(banyan.Fabric("full:3@1GB/s"), banyan.Fabric(banyan.Fabric("full:3@1GB/s"), name="mine"))
        self.assertEqual(len({banyan.Fabric("full:3@1GB/s"), banyan.Fabric("full:3@1GB/s")}), 1)
        self.assertNotEqual(banyan.Fabric("full:3@1GB/s"), banyan.Fabric("full:3@2GB/s"))

    def test_warnings_name_the_culprit(self):
        self.assertEqual(banyan.Fabric("dgx-a100:2").warnings, [])
        self.assertTrue(any("a" in line for line in banyan.Fabric("a -> b 1GB/s; b -> a 2GB/s").warnings))

    def test_pictures_are_svg(self):
        picture = banyan.Fabric("dgx-a100:2").svg()
        xml.etree.ElementTree.fromstring(picture)
        self.assertIn("gpu15", picture)
        self.assertIn("dgx-a100:2", picture)

    def test_fabrics_travel_between_processes(self):
        fabric = banyan.Fabric("mi250:2").fail("gpu0-gpu1")
        copy = pickle.loads(pickle.dumps(fabric))
        self.assertEqual((copy, copy.name), (fabric, fabric.name))

    def test_json_is_of_the_format(self):
        self.assertEqual(json.loads(banyan.Fabric(TRIANGLE).to_json())["banyan"], "fabric/1")


if __name__ == "__main__":
    unittest.main()
