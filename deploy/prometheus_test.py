"""The alerts and the dashboard of deploy/prometheus: promtool's own tests, and against the metrics that there are.

Usage: prometheus_test.py BANYAND ALLREDUCE [unittest's arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed (tools/deps test installs it)")
    sys.exit(77)

FILES = pathlib.Path(__file__).resolve().parent / "prometheus"
DOCS = FILES.parent.parent / "docs"
ALERTS = {"BanyanDaemonDown", "BanyanDrainingTooLong", "BanyanRulesRefused", "BanyanPeersLost", "BanyanRankWaitedFor"}


def promtool(*words):
    ended = subprocess.run(["promtool", *words], cwd=FILES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=60)
    return ended.returncode, ended.stdout


def metrics_of(expression):
    return set(re.findall(r"\bbanyan_\w+", expression))


class Alerts(unittest.TestCase):
    def setUp(self):
        self.rules = yaml.safe_load((FILES / "banyan.rules.yml").read_text())["groups"][0]["rules"]
        # In tables: | `banyan_x`, `banyan_y` | labels | meaning |
        rows = "\n".join((DOCS / name).read_text() for name in ("service.md", "metrics.md"))
        self.known = {name for row in re.findall(r"(?m)^\| (`banyan_[^|]*)\|", rows)
                      for name in re.findall(r"`(banyan_\w+)`", row)}

    def test_are_five_with_words_for_people_and_tests(self):
        self.assertEqual({rule["alert"] for rule in self.rules}, ALERTS)
        tests = yaml.safe_load((FILES / "banyan.rules.test.yml").read_text())["tests"]
        fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if "exp_alerts" in case}
        self.assertEqual(fired, ALERTS)
        for rule in self.rules:
            self.assertEqual(set(rule["annotations"]), {"summary", "description"}, rule["alert"])
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"))

    def test_ask_for_metrics_that_there_are(self):
        asked = set().union(*(metrics_of(rule["expr"]) for rule in self.rules))
        self.assertGreaterEqual(len(asked), 5)
        self.assertEqual(asked - self.known, set())

    def test_are_in_the_documentation(self):
        told = (DOCS / "metrics.md").read_text()
        for name in ALERTS:
            self.assertIn(name, told)

    def test_the_dashboard_asks_for_metrics_that_there_are(self):
        board = json.loads((FILES / "banyan.dashboard.json").read_text())
        expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        self.assertGreaterEqual(len(expressions), 10)
        self.assertEqual(set().union(*map(metrics_of, expressions)) - self.known, set())
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        self.assertEqual(len(set(places)), len(places))


@unittest.skipUnless(shutil.which("promtool"), "promtool is not installed (Debian: prometheus; tools/deps deploy)")
class Promtool(unittest.TestCase):
    def test_takes_the_rules(self):
        code, said = promtool("check", "rules", "banyan.rules.yml")
        self.assertEqual((code, "5 rules found" in said), (0, True), said)

    def test_sees_alerts_come_and_go(self):
        code, said = promtool("test", "rules", "banyan.rules.test.yml")
        self.assertEqual(code, 0, said)

    def test_parses_what_the_dashboard_asks(self):
        board = json.loads((FILES / "banyan.dashboard.json").read_text())
        expressions = [target["expr"].replace("$__rate_interval", "1m")
                       for panel in board["panels"] for target in panel["targets"]]
        rules = {"groups": [{"name": "g", "rules": [{"record": f"r{number}", "expr": expression}
                                                    for number, expression in enumerate(expressions)]}]}
        ended = subprocess.run(["promtool", "check", "rules", "/dev/stdin"], input=json.dumps(rules), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
