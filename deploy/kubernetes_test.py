"""The manifests of deploy/kubernetes: against a schema of the fields that they use, against themselves, and against what
banyand takes.

Usage: kubernetes_test.py BANYAND ALLREDUCE [unittest's arguments]
"""
import copy
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed (tools/deps test installs it)")
    sys.exit(77)

MANIFESTS = pathlib.Path(__file__).resolve().parent / "kubernetes"
BANYAND = os.path.abspath(sys.argv[1])
SCHEMA = json.loads((MANIFESTS / "schema.json").read_text())


def documents(name):
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def of_kind(kind):
    return next(document for document in documents("banyand.yaml") if document["kind"] == kind)


class Manifests(unittest.TestCase):
    def setUp(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)
        self.validator = jsonschema.Draft7Validator(SCHEMA)
        self.pod = of_kind("DaemonSet")["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def test_are_of_the_fields_that_kubernetes_has(self):
        for name in ("banyand.yaml", "pod.yaml"):
            for document in documents(name):
                with self.subTest(f"{name}: {document['kind']}"):
                    # What fits best is the most telling of those that do not fit.
                    error = jsonschema.exceptions.best_match(self.validator.iter_errors(document))
                    self.assertIsNone(error, error and error.message)
        self.assertEqual([document["kind"] for document in documents("banyand.yaml")],
                         ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"])

    def test_a_field_that_kubernetes_would_ignore_or_refuse_is_noticed(self):
        def change(path, key, value):
            document = copy.deepcopy(of_kind("DaemonSet"))
            at = document
            for step in path:
                at = at[step]
            at[key] = value
            return document

        spec = ("spec", "template", "spec")
        container = (*spec, "containers", 0)
        for path, key, value in (((*spec,), "hostNetwrk", True), (container, "image", 7),
                                 ((*container, "securityContext"), "runAsRoot", False),
                                 ((*container, "livenessProbe"), "periodSeconds", "10s"),
                                 ((*spec, "volumes", 0), "secret", {"secretName": "x"}),
                                 ((*container, "resources", "limits"), "memory", "lots")):
            self.assertFalse(self.validator.is_valid(change(path, key, value)), (path, key))

    def test_fit_together(self):
        labels = of_kind("DaemonSet")["spec"]["selector"]["matchLabels"]
        self.assertLessEqual(labels.items(), of_kind("DaemonSet")["spec"]["template"]["metadata"]["labels"].items())
        self.assertEqual(self.pod["serviceAccountName"], of_kind("ServiceAccount")["metadata"]["name"])
        namespace = of_kind("Namespace")["metadata"]["name"]
        for kind in ("ServiceAccount", "ConfigMap", "DaemonSet"):
            self.assertEqual(of_kind(kind)["metadata"]["namespace"], namespace)
        for pod in (self.pod, documents("pod.yaml")[0]["spec"]):
            self.assertEqual({mount["name"] for mount in pod["containers"][0]["volumeMounts"]},
                             {volume["name"] for volume in pod["volumes"]})
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        self.assertEqual(volumes["config"]["configMap"]["name"], of_kind("ConfigMap")["metadata"]["name"])
        ports = {port["name"] for port in self.container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertIn(self.container[probe]["httpGet"]["port"], ports)
        known = {each["name"] for each in self.container["env"]}
        self.assertEqual(set(re.findall(r"\$\((\w+)\)", " ".join(self.container["args"]))), known)

    def test_pods_find_the_socket_at_which_the_daemon_listens_and_not_that_of_operators(self):
        options = dict(argument.removeprefix("--").split("=", 1) for argument in self.container["args"])
        door = next(volume for volume in self.pod["volumes"] if volume["name"] == "door")["hostPath"]["path"]
        pod = documents("pod.yaml")[0]["spec"]
        environment = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
        self.assertEqual(environment["BANYAN_SERVICE"], "unix:" + options["socket"])
        self.assertEqual(pod["volumes"][0]["hostPath"]["path"], door)
        self.assertEqual(os.path.dirname(options["socket"]), door)
        self.assertNotEqual(os.path.dirname(options["operators"]), door)
        self.assertTrue(pod["containers"][0]["volumeMounts"][0]["readOnly"])

    def test_give_the_daemon_no_power_of_root_and_only_its_owner_the_secret(self):
        context = self.container["securityContext"]
        self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
        self.assertFalse(context["privileged"] or context["allowPrivilegeEscalation"])
        self.assertTrue(context["readOnlyRootFilesystem"])
        self.assertFalse(self.pod["automountServiceAccountToken"])
        secret = next(volume for volume in self.pod["volumes"] if volume["name"] == "secret")["secret"]
        self.assertEqual(secret["defaultMode"] & 0o077, 0)
        self.assertNotIn("Secret", [document["kind"] for document in documents("banyand.yaml")], "it would be in files")

    def test_name_options_that_banyand_has(self):
        told = subprocess.run([BANYAND, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
        known = set(re.findall(r"--[a-z][a-z-]*", told))
        self.assertEqual({argument.split("=", 1)[0] for argument in self.container["args"]} - known, set())

    def test_banyand_reads_the_config_map_and_answers_the_probes(self):
        data = of_kind("ConfigMap")["data"]
        with tempfile.TemporaryDirectory(prefix="banyan-kubernetes-") as folder, socket.socket() as free:
            for name, text in data.items():
                pathlib.Path(folder, name).write_text(text)
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
            free.close()
            daemon = subprocess.Popen([BANYAND, "--socket", f"{folder}/door", "--node", "node0", "--http", address,
                                       "--rules", f"{folder}/rules.json", "--fabric", f"{folder}/fabric.txt"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(daemon.stdout.close)
            self.addCleanup(daemon.stderr.close)
            self.addCleanup(daemon.kill)
            said = daemon.stdout.readline()
            self.assertIn("listens at", said, "" if said else daemon.stderr.read())
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                path = self.container[probe]["httpGet"]["path"]
                with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
                    self.assertEqual(answer.status, 200, probe)
            daemon.terminate()
            self.assertEqual(daemon.wait(timeout=30), 0)
            self.assertNotIn("to every user whose program calls its", daemon.stderr.read())

    def test_grant_nothing_to_whoever_says_a_name(self):
        for rule in json.loads(of_kind("ConfigMap")["data"]["rules.json"])["rules"]:
            self.assertTrue(rule["match"]["cgroup"].startswith("/"), rule["name"])
            self.assertFalse({"tenant", "communicator"} & rule["match"].keys(), rule["name"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
