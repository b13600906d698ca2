"""The manifests of deploy/kubernetes: against a schema of the fields that they use, against themselves, and against what
banyand takes.

Usage: kubernetes_test.py BANYAND ALLREDUCE [unittest's arguments]
"""
import copy
import json
import os
import pathlib
import re
import shutil
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


USER = 9420  # whom the daemon runs as


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
        self.options = dict((argument.removeprefix("--") + "=").split("=")[:2] for argument in self.container["args"])

    def test_are_of_the_fields_that_kubernetes_has(self):
        for name in ("banyand.yaml", "metrics.yaml", "pod.yaml"):
            for document in documents(name):
                with self.subTest(f"{name}: {document['kind']}"):
                    # What fits best is the most telling of those that do not fit.
                    error = jsonschema.exceptions.best_match(self.validator.iter_errors(document))
                    self.assertIsNone(error, error and error.message)
        self.assertEqual([document["kind"] for document in documents("banyand.yaml")],
                         ["Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"])
        self.assertEqual([document["kind"] for document in documents("metrics.yaml")],
                         ["ServiceAccount", "ClusterRoleBinding", "ClusterRole", "DaemonSet", "PodMonitor"])

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
        proxy = documents("metrics.yaml")[3]["spec"]["template"]["spec"]
        for pod in (self.pod, documents("pod.yaml")[0]["spec"], proxy):
            containers = pod["containers"] + pod.get("initContainers", [])
            self.assertEqual({mount["name"] for each in containers for mount in each["volumeMounts"]},
                             {volume["name"] for volume in pod["volumes"]})
        volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        self.assertEqual(volumes["config"]["configMap"]["name"], of_kind("ConfigMap")["metadata"]["name"])
        ports = {port["name"] for port in self.container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertIn(self.container[probe]["httpGet"]["port"], ports)
        known = {each["name"] for each in self.container["env"] if "valueFrom" in each}
        self.assertEqual(set(re.findall(r"\$\((\w+)\)", " ".join(self.container["args"]))), known)

    def test_metrics_are_those_of_the_daemon_and_for_whom_kubernetes_lets_read_them(self):
        account, asks, role, proxies, monitor = documents("metrics.yaml")
        template = proxies["spec"]["template"]
        labels = template["metadata"]["labels"]
        self.assertEqual(proxies["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(template["spec"]["serviceAccountName"], account["metadata"]["name"])
        self.assertEqual(asks["subjects"][0]["name"], account["metadata"]["name"])
        self.assertEqual(asks["roleRef"]["name"], "system:auth-delegator")
        self.assertEqual(role["rules"], [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
        proxy = template["spec"]["containers"][0]
        options = dict(argument.split("=", 1) for argument in proxy["args"])
        self.assertEqual(options["--upstream"], f"http://{self.options['http']}/")
        self.assertEqual(options["--allow-paths"], "/metrics")
        self.assertTrue(options["--secure-listen-address"].endswith(str(proxy["ports"][0]["containerPort"])))
        endpoint = monitor["spec"]["podMetricsEndpoints"][0]
        self.assertEqual((endpoint["port"], endpoint["scheme"]), (proxy["ports"][0]["name"], "https"))
        self.assertTrue(proxy["securityContext"]["runAsNonRoot"] and proxy["securityContext"]["readOnlyRootFilesystem"])

    def test_show_nothing_to_who_only_reaches_the_node(self):
        host = self.options["http"].split(":")[0]
        self.assertEqual(host, "127.0.0.1")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.container[probe]["httpGet"]["host"], host)
            self.assertNotIn("rules", self.container[probe]["httpGet"]["path"])
        self.assertNotIn("annotations", of_kind("DaemonSet")["spec"]["template"]["metadata"])

    def test_ask_etcd_by_tls_with_certificates_of_a_secret(self):
        self.assertTrue(self.options["world"].startswith("etcds://"))
        files = {each["name"]: each["value"] for each in self.container["env"] if each["name"].startswith("ETCDCTL_")}
        self.assertEqual(set(files), {"ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"})
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        for path in (*files.values(), self.options["secret-file"]):
            self.assertEqual(os.path.dirname(path), mounts["keys"])
            self.assertIn(f"/{os.path.basename(path)}", self.pod["initContainers"][0]["args"][0])
        for unsafe in pathlib.Path(MANIFESTS.parent).rglob("*"):
            if unsafe.is_file() and unsafe.suffix in (".yaml", ".conf", ".default", ".service"):
                self.assertNotIn("etcd://", unsafe.read_text(), unsafe)

    def test_name_images_by_what_they_are(self):
        for name in ("banyand.yaml", "metrics.yaml"):
            self.assertEqual(re.findall(r"image: (?!\S+@sha256:).*", (MANIFESTS / name).read_text()), [])

    def test_pods_find_the_socket_at_which_the_daemon_listens_and_not_that_of_operators(self):
        options = self.options
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
        self.assertEqual((context["runAsUser"], context["runAsGroup"], context["runAsNonRoot"]), (USER, USER, True))
        self.assertIn("all-users", self.options)
        for each in (context, self.pod["initContainers"][0]["securityContext"]):
            self.assertFalse(each["privileged"] or each["allowPrivilegeEscalation"])
            self.assertTrue(each["readOnlyRootFilesystem"])
            self.assertEqual(each["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertFalse(self.pod["automountServiceAccountToken"])
        for volume in self.pod["volumes"]:
            if "secret" in volume:
                self.assertEqual(volume["secret"]["defaultMode"] & 0o077, 0, volume["name"])
        mounted = {mount["name"] for mount in self.container["volumeMounts"]}
        self.assertFalse(mounted & {"secret", "etcd"}, "it has copies of its own")
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

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can do what comes before the daemon")
    def test_the_daemon_serves_all_users_as_one_of_its_own_once_root_has_given_it_its_folder(self):
        with tempfile.TemporaryDirectory(prefix="banyan-kubernetes-") as scratch:
            os.chmod(scratch, 0o755)
            folder = pathlib.Path(scratch)
            for name in ("run/banyan", "run/banyan-operators", *(f"etc/banyan/{each}" for each in
                                                                 ("keys", "secret", "etcd", "config"))):
                (folder / name).mkdir(parents=True)
            for name in ("banyan-operators", "../etc/banyan/keys"):
                (folder / "run" / name).chmod(0o777)  # as Kubernetes makes it
            (folder / "etc/banyan/secret/secret").write_text("0123456789abcdef" * 2)
            for name in ("ca.crt", "tls.crt", "tls.key"):
                (folder / "etc/banyan/etcd" / name).write_text("x")
            for name, text in of_kind("ConfigMap")["data"].items():
                (folder / "etc/banyan/config" / name).write_text(text)
            # The program, where that user may have it.
            shutil.copy(BANYAND, folder / "banyand")

            def here(words):
                return re.sub(r"(?<![\w./])/(run|etc)/banyan", rf"{folder}/\1/banyan", words)

            init = self.pod["initContainers"][0]
            powers = init["securityContext"]["capabilities"]["add"]
            kept = ",".join(["-all", *("+" + power.lower() for power in powers)])
            for _ in range(2):  # the second time as after a pod that was here before
                subprocess.run(["setpriv", f"--bounding-set={kept}", "--no-new-privs", *init["command"],
                                *map(here, init["args"])], check=True)
            self.assertEqual((folder / "etc/banyan/keys/secret").stat().st_mode & 0o777, 0o400)
            options = {**self.options, "http": "127.0.0.1:0", "address": "127.0.0.1", "node": "node0",
                       "world": f"file://{folder}/run/banyan"}
            words = [f"--{name}={here(value)}" if value else f"--{name}" for name, value in options.items()]
            daemon = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                                       "--bounding-set=-all", "--no-new-privs", str(folder / "banyand"), *words],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(daemon.stdout.close)
            self.addCleanup(daemon.stderr.close)
            self.addCleanup(daemon.kill)
            said = daemon.stdout.readline()
            self.assertIn("listens at", said, "" if said else daemon.stderr.read())
            attach = ("import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])")
            for name, code in (("run/banyan/banyand.sock", 0), ("run/banyan-operators/operator.sock", 1)):
                ended = subprocess.run(["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups",
                                        "/usr/bin/python3", "-c",
                                        attach, str(folder / name)], capture_output=True)
                self.assertEqual(ended.returncode, code, ended.stderr)
            daemon.terminate()
            self.assertEqual(daemon.wait(timeout=30), 0)

    def test_grant_nothing_to_whoever_says_a_name(self):
        for rule in json.loads(of_kind("ConfigMap")["data"]["rules.json"])["rules"]:
            self.assertRegex(rule["match"]["cgroup"], "^(/[.][.])*/kubepods-", rule["name"])
            self.assertFalse({"tenant", "communicator"} & rule["match"].keys(), rule["name"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
