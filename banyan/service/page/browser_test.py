#!/usr/bin/env python3
"""The dashboard in headless Chromium, with a daemon that is made up: browser_test.py [FOLDER]

With FOLDER, pictures are left there to be looked at. Ends with 77, which ctest calls skipped, where there is no
Chromium.
"""
import math
import os
import re
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "predict", "report", "page")]
import browser as chromium  # noqa: E402
from fake_daemon import FakeDaemon, cluster, communicator, host, link, rank  # noqa: E402

BROWSER = None
HOSTILE = "<img src=x onerror=\"window.broken=1\"></td><script>window.broken=2</script>"


def busy(number):
    """Two tenants of weights 3 and 1, who get 600 and 300 MB/s of a link of 1 GB/s; rank 5 of one job is late."""
    def ranks(calls, **more):
        return [rank(i, "abcd"[i // 2], calls_begun=calls + 1, calls_over=calls, sent_tcp_bytes=number * 10_000_000,
                     call="allreduce of 4 MiB", call_seconds=0.4, waiting_for=None if i == 5 else 5, **more)
                for i in range(8)]
    idle = [rank(i, "ab"[i], calls_begun=7, calls_over=7, idle_seconds=3) for i in range(2)]
    return cluster(
        hosts=[host("a", core_seconds=number * 0.5, refused={"session": 2, "rules": 1}), host("b", is_draining=True),
               host("c"), host("d", events_dropped=12)],
        unreachable=[{"host": "e", "why": "it has not answered within 400 ms"}],
        communicators=[
            communicator("aa", "evaluate", "1001/eval", idle, cap=2_000_000_000, share_class="low"),
            communicator("bb", "gradients", "1000/train", ranks(50 * number), weight=3, progress=0.25,
                         rate=600_000_000, share_class="high"),
            communicator("cc", "finetune", "1001/eval", [dict(each, waiting_for=None) for each in ranks(20 * number)],
                         progress=0.75)],
        links=[link("leaf0->spine0", 1e9, **{"1000/train": 10**12 + 600_000_000 * number,
                                             "1001/eval": 300_000_000 * number}),
               link("leaf0->spine1", 1e9, **{"1001/eval": 50_000_000 * number}),
               link("spine0->leaf1", 1e9, **{"1000/train": 500 * 10**9})],
        events=[{"at": 1_800_000_000, "host": "a", "words": "the daemon has begun"},
                {"at": 1_800_000_001, "host": "b", "words": "no communicators are opened any more"}],
        findings=[{"kind": "late rank", "communicator": "bb",
                   "words": "rank 5 of 'gradients' on host c is late: 7 ranks have begun call 812, it has not"},
                  {"kind": "slow link", "communicator": "", "words": "link leaf0->spine1 carries 10 % of its rate"}])


class DashboardTest(chromium.BrowserTest):
    def open(self, view, width=1400):
        self.daemon = FakeDaemon(view)
        self.addCleanup(self.daemon.__exit__)
        self.addCleanup(BROWSER.visit, "about:blank")  # before the daemon ends
        BROWSER.size(width, 900)
        BROWSER.media()
        BROWSER.visit(self.daemon.url + "?period=50")

    def run_js(self, code):
        return BROWSER.run(code)

    def text(self, selector):
        return self.run_js(f"document.querySelector({selector!r})?.textContent ?? null")

    def texts(self, selector):
        return self.run_js(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")

    def count(self, selector):
        return self.run_js(f"document.querySelectorAll({selector!r}).length")

    def until(self, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline:
                self.run_js("0")  # which a browser that is gone does not answer
                self.fail(what)
            time.sleep(0.02)

    def wait(self, answers):
        """Until so many answers more are shown."""
        wanted = self.daemon.asked + answers
        self.until(lambda: self.daemon.asked > wanted, "the page asks no more")
        BROWSER.settle()

    def row(self, section, first):
        """The cells of the row that begins with this text."""
        return self.run_js(f"""[...[...document.querySelectorAll('#{section} tbody tr')]
            .find(row => row.firstChild.textContent.trim().startsWith({first!r})).children]
            .map(cell => cell.innerText)""")

    def figure(self, name):
        return self.text(f"[data-figure={name}]")

    def test_what_is_wrong_stands_on_top(self):
        self.open(busy)
        self.wait(2)
        self.assertEqual(self.texts(".findings li"), [
            "late rank" "rank 5 of 'gradients' on host c is late: 7 ranks have begun call 812, it has not",
            "slow link" "link leaf0->spine1 carries 10 % of its rate"])
        tops = self.run_js("""['.findings', '#tenants', '#links', '#communicators', '#hosts', '#events']
            .map(name => document.querySelector(name).getBoundingClientRect().top)""")
        self.assertEqual(tops[:4], sorted(tops[:4]))
        self.assertLess(tops[3], tops[4])

    def test_tenants_have_their_share_beside_that_of_their_weight(self):
        self.open(busy)
        self.wait(8)
        # 600 of 950 MB/s over all links; 3 of 4 by weight. What was sent before the page was opened counts nothing.
        train, evaluate = self.row("tenants", "1000/train"), self.row("tenants", "1001/eval")
        self.assertEqual(train[1:6], ["63 % (75 % by weight)", "600 MB/s", "3", "high", "–"])
        self.assertEqual(evaluate[1:6], ["37 % (25 % by weight)", "350 MB/s", "1", "normal", "2.00 GB/s"])
        self.assertEqual([train[6], evaluate[6]], ["50/s", "20/s"])
        self.assertEqual(self.texts("#tenants tbody td:first-child"), ["1000/train", "1001/eval"])
        widths = self.run_js("[...document.querySelectorAll('#tenants .bar > i')].map(e => e.style.width)")
        self.assertAlmostEqual(float(widths[0].rstrip("%")), 100 * 600 / 950, delta=0.1)

    def test_links_are_drawn_over_time_the_busiest_first(self):
        self.open(busy)
        self.wait(10)
        self.assertEqual(self.run_js("[...document.querySelectorAll('.link')].map(e => e.dataset.link)"),
                         ["leaf0->spine0", "leaf0->spine1"], "without the one that carries nothing now")
        self.assertEqual(self.texts(".link [data-load]"), ["90 %", "5 %"])
        # Of one moment: the page goes on drawing.
        drawn = """['1000/train', '1001/eval'].map(tenant =>
            document.querySelector(`.link path[data-tenant="${tenant}"]`).getAttribute('d'))"""
        train, evaluate = self.run_js(drawn)
        steps = train.count("M")
        self.assertEqual(steps, evaluate.count("M"))
        self.assertGreaterEqual(steps, 9)
        # Stacked: 600 MB/s from the floor of 84 up, 300 on top of them.
        self.assertIn("33.6H", train)
        self.assertEqual(re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", evaluate)[-1], ("33.6", "8.4"))
        self.wait(5)
        self.assertGreater(self.run_js(drawn)[0].count("M"), steps)

    def test_communicators_say_how_far_they_are_and_whom_they_wait_for(self):
        self.open(busy)
        self.wait(8)
        self.assertEqual(self.texts("#communicators .fold"), ["gradients", "evaluate", "finetune"],
                         "what is wrong comes first")
        late, idle = self.row("communicators", "gradients"), self.row("communicators", "evaluate")
        self.assertEqual(late[1:6], ["1000/train", "8 on 4 hosts", "50/s", "80.0 MB/s", "600 MB/s"])
        self.assertIn("allreduce of 4 MiB 0.4 s", late[6])
        self.assertEqual(late[7], "7 ranks for rank 5")
        self.assertEqual([idle[3], idle[6], idle[7]], ["0/s", "no call", "–"])
        self.assertEqual(self.run_js("document.querySelector('[data-communicator=bb] .bar > i').style.width"), "25%")
        self.run_js("document.querySelector('[data-communicator=bb] .fold').click()")
        self.wait(2)
        self.assertEqual(self.count(".ranks tbody tr"), 8)
        self.assertIn("weight 3, class high", self.text(".detail p"))

    def test_communicators_are_found_by_name(self):
        self.open(busy)
        self.wait(2)
        self.run_js("""(e => { e.value = 'EVAL'; e.dispatchEvent(new Event('input', {bubbles: true})); })
            (document.querySelector('#communicators input'))""")
        self.wait(2)
        self.assertEqual(self.texts("#communicators .fold"), ["evaluate", "finetune"])

    def test_hosts_and_events_are_listed(self):
        self.open(busy)
        self.wait(8)
        rows = self.texts("#hosts tbody tr td:first-child")
        self.assertEqual(rows, ["e unreachable", "a steward", "b draining", "c ", "d "])
        self.assertEqual(self.row("hosts", "a")[3:9], ["2", "1.00 GiB", "0.50", "0", "3", "1"])
        self.assertIn("400 ms", self.text("#hosts tbody tr"))
        events = self.texts("#events li")
        self.assertTrue(events[0].endswith("b no communicators are opened any more"), events)
        self.assertIn("12 are kept no more", self.text("#events header"))

    def test_names_of_any_form_are_text(self):
        def view(number):
            made = cluster(
                hosts=[host(HOSTILE, node=HOSTILE, version=HOSTILE, refused={HOSTILE: 1})],
                unreachable=[{"host": HOSTILE, "why": HOSTILE}],
                communicators=[communicator("x", HOSTILE, HOSTILE,
                                            [rank(0, HOSTILE, program=HOSTILE, call=HOSTILE, error=""),
                                             rank(1, HOSTILE, error=HOSTILE)], rule=HOSTILE)],
                links=[link(HOSTILE, 1e9, **{HOSTILE: 1000 * number, "__proto__": 1000 * number})],
                events=[{"at": 0, "host": HOSTILE, "words": HOSTILE}],
                findings=[{"kind": HOSTILE, "communicator": "x", "words": HOSTILE}])
            return made
        self.open(view)
        self.wait(6)
        self.run_js("document.querySelector('.fold').click()")
        self.wait(2)
        self.assertIsNone(self.run_js("window.broken ?? null"))
        self.assertEqual(self.count("img, #page script"), 0)
        for where in (".findings", "#tenants td.name", ".link .name", ".legend .name", "#communicators .fold",
                      ".ranks", "#hosts tbody", "#events li"):
            self.assertIn(HOSTILE, self.text(where), where)
        self.assertEqual(BROWSER.errors, [])

    def test_nothing_is_asked_of_anybody_else(self):
        self.open(busy)
        self.wait(5)
        self.assertEqual({url for url in BROWSER.requests if not url.startswith("data:")},
                         {self.daemon.url + "?period=50", self.daemon.url + "v1/cluster"})
        self.assertEqual(BROWSER.errors, [])

    def test_a_daemon_that_does_not_answer_is_told_of_and_asked_again(self):
        state = {"answer": None}
        self.open(lambda number: state["answer"] if "answer" in state else busy(number))
        self.until(lambda: self.text("[data-state]") == "no answer", "nothing is said")
        self.assertIn("asked again and again", self.text(".problem"))
        state["answer"] = "the mesh is down"
        self.until(lambda: "the mesh is down" in (self.text(".problem") or ""), "the error is not shown")
        del state["answer"]
        self.until(lambda: self.text("[data-state]") == "live", "it does not go on")
        self.assertIsNone(self.text(".problem"))
        state["answer"] = None
        self.until(lambda: self.text("[data-state]") == "no answer", "nothing is said")
        self.assertIn("What follows is of", self.text(".problem"))
        self.assertEqual(self.count("#tenants tbody tr"), 2, "the last view stays")

    def test_what_daemons_counted_before_is_never_taken_for_a_rate(self):
        # A daemon begins anew at 10; another with large counters does not answer from 20 to 30.
        def view(number):
            count = number if number < 10 else number - 10
            hosts = [host("a", up_seconds=1 + count)]
            traffic = 100_000_000 * count
            if not 20 <= number < 30:
                hosts.append(host("b"))
                traffic += 10**15
            return cluster(hosts=hosts, links=[link("l", 1e9, t=traffic)], communicators=[
                communicator("x", "job", "t", [rank(0, "a", calls_over=count * 10)])])
        self.open(view)
        shown = set()
        while self.daemon.asked < 45:
            load, calls = self.text(".link [data-load]"), self.text("[data-figure=calls]")
            shown.update(value for value in (load, calls) if value is not None)
        self.assertLessEqual(shown, {"0 %", "10 %", "10/s", "–", "0/s"})
        self.assertIn("10 %", shown)
        paths = "[...document.querySelectorAll('.link path')].map(p => p.getAttribute('d')).join('')"
        heights = {match for match in re.findall(r" 84\.0V([\d.]+)", self.run_js(paths))}
        self.assertEqual(heights, {"75.6"}, "a tenth of the link, at every moment")

    def test_pause_holds_the_picture(self):
        self.open(busy)
        self.wait(3)
        self.run_js("document.querySelector('.pause').click()")
        BROWSER.settle()
        asked = self.daemon.asked
        time.sleep(0.4)
        self.assertLessEqual(self.daemon.asked, asked + 1)
        self.assertEqual(self.text("[data-state]"), "paused")
        self.run_js("document.querySelector('.pause').click()")
        self.wait(2)
        self.assertEqual(self.text("[data-state]"), "live")

    def test_an_empty_cluster_says_what_is_missing(self):
        self.open(lambda number: cluster(hosts=[host("a")]))
        self.wait(3)
        self.assertEqual(self.text(".well"), "Nothing is late, stalled or slow.")
        self.assertEqual(self.texts(".nothing"), [
            "No communicators are open.",
            "No link is known. Daemons that are given a fabric (--fabric) count what goes over its links.",
            "No communicators are open.", "Nothing has happened."])

    def test_without_links_shares_are_of_what_ranks_send(self):
        def view(number):
            made = busy(number)
            made["links"] = []
            return made
        self.open(view)
        self.wait(8)
        self.assertEqual(self.row("tenants", "1000/train")[1], "50 % (75 % by weight)")
        self.assertIn("of what ranks send", self.text("#tenants header"))

    def test_tenants_of_one_sharer_divide_its_weight(self):
        def view(number):
            made = busy(number)
            for each in made["communicators"]:
                each["sharer"] = "1000"
            return made
        self.open(view)
        self.wait(8)
        self.assertEqual(self.row("tenants", "1000/train")[1], "63 % (50 % by weight)")
        self.assertEqual(self.row("tenants", "1001/eval")[1], "37 % (50 % by weight)")

    def test_communicators_of_one_host_have_no_terms(self):
        def view(number):
            late = [rank(0, "a", calls_begun=number, calls_over=number),
                    rank(1, "a", calls_begun=number + 1, calls_over=number, call="allreduce of 4 int8 sum")]
            return cluster(hosts=[host("a")],
                           communicators=[communicator("d0", "local", "1000/eval", late, is_direct=True, weight=7)])
        self.open(view)
        self.until(lambda: self.count("#tenants tbody tr") == 1, "the tenant is shown")
        self.assertIn("–", self.row("tenants", "1000/eval"))
        self.assertNotIn("7", self.row("tenants", "1000/eval"))
        self.assertIn("allreduce of 4 int8 sum", " ".join(self.row("communicators", "local")))
        self.run_js("document.querySelector('#communicators .fold').click()")
        self.until(lambda: self.count("#communicators .detail") == 1, "the ranks are shown")
        self.assertIn("exchanges in the memory of its host", self.text("#communicators .detail"))

    def test_traffic_of_a_tenant_that_has_just_gone_counts(self):
        def view(number):
            made = busy(number)
            made["communicators"] = made["communicators"][:1] + made["communicators"][2:]
            return made
        self.open(view)
        self.wait(8)
        gone, rest = self.row("tenants", "1000/train"), self.row("tenants", "1001/eval")
        self.assertEqual([gone[1].strip(), gone[3], gone[7]], ["63 %", "–", "0"])
        self.assertEqual(rest[1], "37 % (100 % by weight)")

    def test_a_large_cluster_is_drawn_in_time(self):
        def view(number):
            return cluster(
                hosts=[host(f"node{i}") for i in range(256)],
                communicators=[communicator(f"{i}", f"job {i}", f"tenant {i % 40}",
                                            [rank(r, f"node{(i + r) % 256}", calls_over=number) for r in range(8)])
                               for i in range(1000)],
                links=[link(f"leaf{i}->spine{i % 16}", 1e9,
                            **{f"tenant {t}": 1_000_000 * (i + 1) * number for t in range(i % 40, i % 40 + 4)})
                       for i in range(600)])
        self.open(view)
        self.wait(20)
        self.assertEqual(self.count("#communicators tbody tr"), 200)
        self.assertIn("the first 200 of 1,000", self.text("#communicators header"))
        self.assertEqual(self.count(".link"), 6)
        self.run_js("document.querySelector('#links button').click()")
        self.wait(2)
        self.assertEqual(self.count(".link"), 12)
        # How long the thread of the page is taken at once.
        longest = self.run_js("""new Promise(done => { let worst = 0, last = performance.now(), left = 60;
            const look = () => { const now = performance.now(); worst = Math.max(worst, now - last); last = now;
                if (--left > 0) setTimeout(look, 5); else done(worst); }; look(); })""")
        self.assertLess(longest, 1500, "milliseconds; some 100 on a quiet machine")

    def test_nothing_is_wider_than_the_window(self):
        for width in (1900, 1100, 640, 380):
            with self.subTest(width):
                self.open(busy, width)
                self.wait(4)
                self.assertLessEqual(self.run_js("document.documentElement.scrollWidth"), width)

    def test_colours_follow_the_reader(self):
        self.open(busy)
        self.wait(2)
        page = "getComputedStyle(document.body).backgroundColor"
        light = self.run_js(page)
        BROWSER.media(dark=True)
        dark = self.run_js(page)
        self.assertNotEqual(dark, light)
        self.wait(2)
        for wanted in (light, dark, light):
            self.run_js("document.querySelector('.theme').click()")
            BROWSER.settle()
            self.assertEqual(self.run_js(page), wanted)


def waves(number):
    """Counters as jobs make them that communicate and compute in turns."""
    def total(rate, phase):
        return round(sum(rate * max(0, math.sin((i + phase) / 7)) ** 0.5 for i in range(number)))
    made = busy(number)
    names = ["1000/train", "1001/eval", "1002/serve", "alice"]
    made["links"] = [
        link(f"leaf{i // 4}->spine{i % 4}", 1.25e9,
             **{name: total(1.2e9 / (2 + k + i % 3), 11 * k + i) for k, name in enumerate(names[:2 + i % 3])})
        for i in range(16)]
    return made


def take_pictures(folder):
    os.makedirs(folder, exist_ok=True)
    with FakeDaemon(waves) as daemon:
        for name, width, dark in (("light", 1400, False), ("dark", 1400, True), ("narrow", 400, False)):
            BROWSER.size(width, 900)
            BROWSER.media(dark=dark)
            daemon.asked = 0
            BROWSER.visit(daemon.url + "?period=50")
            while daemon.asked < 150:
                time.sleep(0.1)
            if name == "light":
                BROWSER.run("document.querySelector('[data-communicator=bb] .fold').click()")
            BROWSER.screenshot(os.path.join(folder, name + ".png"), whole=True)
        BROWSER.visit("about:blank")


def main():
    global BROWSER
    path = chromium.find()
    if path is None:
        print("skipped: this machine has no Chromium (tools/deps page)")
        return 77
    with chromium.Browser(path) as BROWSER:
        chromium.BrowserTest.browser = BROWSER
        if len(sys.argv) > 1:
            take_pictures(sys.argv[1])
        result = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
