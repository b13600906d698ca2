#!/usr/bin/env python3
"""The report's page in headless Chromium: browser_test.py SAMPLES [FOLDER]

SAMPLES is the program banyan_report_samples, which writes a page of each sample prediction. With FOLDER, pictures of
all pages are left there to be looked at. Ends with 77, which ctest calls skipped, where there is no Chromium.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser as chromium  # noqa: E402

ALL = ("box", "sweep", "jobs", "events", "partial", "hostile", "nothing", "ranks1024", "fattree1024", "spans100k",
       "torus", "ranks16384")
BROWSER = None
FOLDER = None


def box_of(selector):
    return f"(r => [r.left, r.top, r.width, r.height])(document.querySelector({selector!r}).getBoundingClientRect())"


def luminance(colour):
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


class PageTest(chromium.BrowserTest):
    def open(self, name):
        BROWSER.size(1400, 900)
        BROWSER.media()
        BROWSER.open(os.path.join(FOLDER, name + ".html"))

    def run_js(self, code):
        return BROWSER.run(code)

    def count(self, selector):
        return self.run_js(f"document.querySelectorAll({selector!r}).length")

    def data(self, selector, key):
        return self.run_js(f"document.querySelector({selector!r}).dataset.{key}")

    def text(self, selector):
        return self.run_js(f"document.querySelector({selector!r})?.textContent ?? null")

    def into_view(self, selector):
        self.run_js(f"""document.documentElement.style.scrollBehavior = 'auto';
            document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})""")
        BROWSER.settle()
        return self.run_js(box_of(selector))

    def type_into(self, selector, text):
        self.set_value(selector, text, "input")

    def set_value(self, selector, value, event):
        self.run_js(f"""(e => {{
            e.focus(); e.value = {value!r}; e.dispatchEvent(new Event({event!r}, {{bubbles: true}}));
            }})(document.querySelector({selector!r}))""")
        BROWSER.settle()

    def colours_on(self, canvas):
        """How many different colours the canvas shows."""
        return self.run_js("""(c => { const seen = new Set();
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            return seen.size; })(document.querySelector(%r))""" % canvas)

    def wheel(self, x, y, delta):
        BROWSER.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta, modifiers=2)
        BROWSER.settle()

    def drag(self, x, y, dx, dy):
        BROWSER.mouse("mousePressed", x, y, button="left", clickCount=1)
        for part in (0.5, 1):
            BROWSER.mouse("mouseMoved", x + dx * part, y + dy * part, button="left", buttons=1)
        BROWSER.mouse("mouseReleased", x + dx, y + dy, button="left", clickCount=1)
        BROWSER.settle()

    def view(self):
        return [float(part) for part in self.data(".timeline-canvas", "view").split()]

    def span_names(self):
        """How many spans of each name the page was given."""
        return self.run_js("""(data => { const count = {};
            for (const track of data.tracks) for (let i = 2; i < track.spans.length; i += 4) {
              const name = data.names[track.spans[i]]; count[name] = (count[name] ?? 0) + 1; }
            return count; })(JSON.parse(document.getElementById("prediction").textContent))""")

    # Every page.

    def test_no_page_complains_or_asks_the_network(self):
        for name in ALL:
            with self.subTest(name):
                self.open(name)
                self.assertEqual(self.data("#page", "ready"), "yes")
                self.assertEqual(BROWSER.errors, [])
                self.assertEqual([url for url in BROWSER.requests if not url.endswith(f"/{name}.html")], [])
                self.assertEqual(self.run_js("performance.getEntriesByType('resource').length"), 0)

    def test_a_page_shows_the_parts_that_it_has_data_for(self):
        parts = {"box": "fabric links what-if timeline ranks throughput", "sweep": "throughput", "nothing": "",
                 "jobs": "fabric links timeline ranks jobs", "partial": "fabric links timeline ranks"}
        for name, expected in parts.items():
            with self.subTest(name):
                self.open(name)
                found = self.run_js("[...document.querySelectorAll('section.card')].map(s => s.id)")
                self.assertEqual(sorted(found), sorted(expected.split()))

    def test_the_browser_refuses_to_load_anything_for_the_page(self):
        self.open("box")
        self.assertEqual(self.run_js("fetch('https://example.org/').then(() => 'loaded', () => 'refused')"), "refused")
        self.assertEqual(self.run_js("""new Promise(done => { const i = new Image();
            i.onload = () => done('loaded'); i.onerror = () => done('refused');
            i.src = 'https://example.org/x.png'; })"""),
                         "refused")
        self.assertEqual(self.run_js("""(s => { s.textContent = 'document.title = "broken"'; document.body.append(s);
            return document.title; })(document.createElement('script'))"""),
                         "Allreduce of 1 GiB by a forest on dgx-a100:1 · Banyan")

    def test_hostile_names_stay_text(self):
        self.open("hostile")
        self.assertNotEqual(self.run_js("document.title"), "broken")
        injected = "#page script, #page img, #page h1 b, #page [onload], #page [onerror], #page .reading > i > *"
        self.assertEqual(self.count(injected), 0)
        self.assertTrue(self.text("h1").startswith("<b>bold</b> </title></script>"))
        self.assertIn("@BANYAN_PREDICTION@", self.text("h1"))
        self.assertEqual(self.run_js("/[\\u202a-\\u202e]/.test(document.querySelector('#page').textContent)"), False)

    def test_everything_to_operate_has_a_name(self):
        self.open("jobs")
        nameless = self.run_js("""
            [...document.querySelectorAll('button, input, select, canvas[tabindex], svg[tabindex]')]
            .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() ||
                           e.closest('label')?.textContent.trim()))
            .map(e => e.outerHTML)""")
        self.assertEqual(nameless, [])
        reached = set()
        for _ in range(60):
            BROWSER.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
            BROWSER.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
            reached.add(self.run_js("""(e => e.tagName.toLowerCase() + '.' + (e.getAttribute('class') ?? e.type ?? '')
                )(document.activeElement)"""))
        for wanted in ("a.", "button.theme", "svg.fabric", "input.radio", "input.search", "canvas.timeline-canvas",
                       "select.select-one"):
            self.assertIn(wanted, reached)

    # The headline.

    def test_the_headline_says_how_long_and_why(self):
        self.open("box")
        self.assertEqual(self.text("[data-figure=time]"), "1.40 ms")
        self.assertEqual(self.text("[data-figure=bottleneck]"), "gpu0 -> nvsw0")
        self.assertIn("Doubling links gpu – nvswitch would save 39 %", self.text(".sentence"))
        self.assertIsNone(self.text(".badge"))

    def test_facts_and_operations_that_nothing_covers_are_listed(self):
        self.open("box")
        self.assertEqual(self.run_js("[...document.querySelectorAll('.facts dt, .facts dd')].map(e => e.textContent)"),
                         ["Tokens", "4711 a second", "Memory", "fits: 61.2 of 75.0 GiB"])
        shares = self.run_js("[...document.querySelectorAll('.uncovered .value')].map(e => parseFloat(e.textContent))")
        self.assertGreater(len(shares), 0)
        self.assertEqual(shares, sorted(shares, reverse=True))
        exposed, waiting = self.run_js("JSON.parse(document.getElementById('prediction').textContent).shares")[1:3]
        self.assertAlmostEqual(sum(shares), 100 * (exposed + waiting), delta=len(shares))

    def test_canvases_are_drawn_before_the_first_frame(self):
        script = BROWSER.call("Page.addScriptToEvaluateOnNewDocument", source="""
            addEventListener('DOMContentLoaded', () => {
              window.coloursAtOnce = ['.timeline-canvas', '.overview', '.skyline canvas'].map(selector => {
                const c = document.querySelector(selector), seen = new Set();
                const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
                return seen.size; }); })""")
        try:
            self.open("jobs")
            for colours in self.run_js("window.coloursAtOnce"):
                self.assertGreater(colours, 2)
        finally:
            BROWSER.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])

    def test_the_fabric_fits_its_card_and_uses_its_width(self):
        for name, width, least in (("box", 1300, 0.3), ("spans100k", 1300, 0.8), ("spans100k", 390, 0.8)):
            with self.subTest(name, width=width):
                self.open(name)
                BROWSER.size(width, 900)
                BROWSER.settle()
                left, top, wide, high = self.run_js(box_of("svg.fabric"))
                x, y, drawn_wide, drawn_high = self.run_js(box_of("svg.fabric .units"))
                self.assertGreaterEqual(x, left)
                self.assertLessEqual(x + drawn_wide, left + wide)
                self.assertGreaterEqual(y, top)
                self.assertLessEqual(y + drawn_high, top + high)
                self.assertGreaterEqual(drawn_wide, least * wide)

    def test_the_colours_of_small_loads_differ(self):
        self.open("box")
        highest = self.run_js("Math.max(...[...document.querySelectorAll('path.line')].map(e => e.dataset.load))")
        end = float(re.search(r"[\d.]+(?= % of bandwidth)", self.text("#fabric .legend")).group()) / 100
        self.assertGreaterEqual(end, highest - 0.001)
        self.assertTrue(end <= 0.02 or highest > 0.35 * end, f"the scale ends at {end}, the highest load is {highest}")

    def test_a_partial_result_says_so(self):
        self.open("partial")
        self.assertEqual(self.text(".badge"), "Partial result")
        self.assertIn("Stopped early", self.text(".sentence"))

    def test_what_was_left_out_is_said(self):
        self.open("ranks16384")
        self.assertIn("of 178,176 spans", self.text(".notes"))
        self.assertIn("16,384 ranks", self.text(".notes"))

    # The drawing.

    def test_every_link_of_a_small_fabric_is_drawn_in_the_colour_of_its_load(self):
        self.open("box")
        lines = self.run_js("""[...document.querySelectorAll('svg.fabric path.line')]
            .map(p => [Number(p.dataset.load), p.getAttribute('stroke')])""")
        self.assertEqual(len(lines), 16)
        lines.sort()
        self.assertLess(lines[0][0], 0.25)
        self.assertAlmostEqual(lines[-1][0], 0.61, delta=0.01)
        shades = [luminance(colour) for _, colour in lines]
        self.assertEqual(shades, sorted(shades, reverse=True), "the busier, the darker")
        self.assertGreater(shades[0] - shades[-1], 40)
        self.assertEqual(self.count("svg.fabric .unit"), 9)

    def test_large_fabrics_are_gathered_into_boxes(self):
        for name, tiles, lines in (("ranks1024", 128, 256), ("fattree1024", 128, 2 * (128 + 16))):
            with self.subTest(name):
                self.open(name)
                self.assertEqual(self.count("svg.fabric .tile"), tiles)
                self.assertEqual(self.count("svg.fabric path.line"), lines)
                self.assertEqual(self.count("svg.fabric .cell"), 1024)
        self.open("ranks16384")
        self.assertEqual(self.count("svg.fabric .tile"), 256)

    def test_the_whole_drawing_is_in_view(self):
        for name in ("box", "torus", "spans100k", "fattree1024", "hostile"):
            with self.subTest(name):
                self.open(name)
                inside = self.run_js("""(s => {
                    const a = s.getBoundingClientRect(), b = s.querySelector('.units').getBoundingClientRect();
                    return b.left >= a.left && b.right <= a.right && b.top >= a.top && b.bottom <= a.bottom;
                    })(document.querySelector('svg.fabric'))""")
                self.assertTrue(inside)

    def test_the_drawing_zooms_and_pans(self):
        self.open("ranks1024")
        left, top, width, height = self.into_view("svg.fabric")
        x, y = left + width / 2, top + height / 2
        before = self.data("svg.fabric", "view").split()
        self.wheel(x, y, -200)
        zoomed = self.data("svg.fabric", "view").split()
        self.assertGreater(float(zoomed[2]), 1.5 * float(before[2]))
        self.drag(x, y, 60, 30)
        panned = self.data("svg.fabric", "view").split()
        self.assertAlmostEqual(float(panned[0]) - float(zoomed[0]), 60, delta=0.5)
        self.assertAlmostEqual(float(panned[1]) - float(zoomed[1]), 30, delta=0.5)
        self.run_js("document.querySelector('svg.fabric').focus()")
        BROWSER.key("0")
        self.assertEqual(self.data("svg.fabric", "view").split(), before)
        BROWSER.key("+")
        self.assertGreater(float(self.data("svg.fabric", "view").split()[2]), float(before[2]))

    def test_hovering_over_a_link_tells_its_numbers(self):
        self.open("box")
        self.into_view("svg.fabric")
        x, y, width, height = self.run_js(box_of("svg.fabric path.line[data-line='2'][data-side='forth']"))
        BROWSER.mouse("mouseMoved", x + width / 2, y + height / 2)
        BROWSER.settle()
        tip = self.text(".tooltip")
        for wanted in ("gpu2", "nvsw0", "Bandwidth300 GB/s", "Load", "Bottleneck for"):
            self.assertIn(wanted, tip)

    def test_choosing_a_part_lists_its_links(self):
        self.open("jobs")
        self.into_view("svg.fabric")
        x, y, width, height = self.run_js(box_of("svg.fabric [data-unit='3'] .body"))
        BROWSER.click(x + width / 2, y + height / 2)
        rows = self.run_js("[...document.querySelectorAll('#links tbody tr')].map(r => r.firstChild.textContent)")
        self.assertEqual(len(rows), 4)
        self.assertTrue(all("gpu3 " in row + " " for row in rows), rows)
        self.run_js("document.querySelector('#links .chip').click()")
        BROWSER.settle()
        self.assertEqual(self.count("#links tbody tr"), 12)

    def test_the_drawing_follows_the_moment_under_the_cursor(self):
        self.open("box")
        loads = "[...document.querySelectorAll('svg.fabric path.line')].map(p => p.dataset.load)"
        average = self.run_js(loads)
        self.run_js("document.querySelector('input[name=metric][value=moment]').click()")
        BROWSER.settle()
        at_first = self.run_js(loads)
        self.assertNotEqual(at_first, average)
        left, top, width, _ = self.into_view(".timeline-canvas")
        BROWSER.mouse("mouseMoved", left + width * 0.6, top + 60)
        BROWSER.settle()
        self.assertNotEqual(self.run_js(loads), at_first)
        self.assertNotEqual(self.text(".slider output"), "0 ps")

    # The timeline.

    def test_the_timeline_is_drawn(self):
        self.open("jobs")
        self.into_view(".timeline-canvas")
        self.assertEqual(self.data(".timeline-canvas", "spans"), "3296")
        colours = self.colours_on(".timeline-canvas")
        self.assertGreater(colours, 20)
        self.assertGreater(int(self.data(".timeline-canvas", "drawn")), 1000)

    def test_the_timeline_zooms_and_pans(self):
        self.open("spans100k")
        self.assertGreater(int(self.data(".timeline-canvas", "spans")), 100_000)
        left, top, width, height = self.into_view(".timeline-canvas")
        x, y = left + width / 2, top + height / 2
        whole = self.view()
        self.wheel(x, y, -300)
        zoomed = self.view()
        self.assertLess(zoomed[1] - zoomed[0], 0.3 * (whole[1] - whole[0]))
        self.drag(x, y, -100, 0)
        panned = self.view()
        self.assertGreater(panned[0], zoomed[0])
        self.assertAlmostEqual(panned[1] - panned[0], zoomed[1] - zoomed[0], delta=1)
        self.run_js("document.querySelector('.timeline-canvas').focus()")
        times = []
        for key in "wwaaddssaadd":
            BROWSER.key(key)
            times.append(float(self.data(".timeline-canvas", "drawMs")))
        times.sort()
        # Some 10 ms on a quiet machine; a redraw that looks at every span is far above.
        self.assertLess(times[len(times) // 2], 120, times)
        BROWSER.key("0")
        self.assertEqual(self.view(), whole)

    def test_spans_are_found_by_name(self):
        self.open("jobs")
        wanted = self.span_names()["allreduce gradients"]
        self.type_into(".finder input", "GRADIENT")
        self.assertEqual(self.text(".finder output"), str(wanted))
        BROWSER.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
        BROWSER.settle()
        self.assertEqual(self.text(".finder output"), f"1 / {wanted}")
        self.assertTrue(self.text("#timeline footer").startswith("allreduce gradients"))
        self.type_into(".finder input", "no such span")
        self.assertEqual(self.text(".finder output"), "none")

    def test_rows_are_filtered_by_name(self):
        self.open("jobs")
        self.type_into("#timeline header > input[type=search]", "gpu31 co")
        self.assertEqual(self.data(".timeline-canvas", "rows"), "2")
        self.type_into("#timeline header > input[type=search]", "-> ib0")
        self.assertGreater(int(self.data(".timeline-canvas", "rows")), 8)

    def test_hovering_over_a_span_tells_its_numbers_and_clicking_keeps_them(self):
        self.open("box")
        left, top, _, _ = self.into_view(".timeline-canvas")
        BROWSER.mouse("mouseMoved", left + 230, top + 34)
        BROWSER.settle()
        self.assertIn("Rankgpu0Streamcompute", self.text(".tooltip"))
        BROWSER.click(left + 230, top + 34)
        for wanted in ("gpu0", "compute", "Duration", "µs"):
            self.assertIn(wanted, self.text("#timeline footer"))

    def test_links_have_rows_in_the_timeline(self):
        self.open("box")
        self.set_value("#timeline select", "link", "change")
        self.assertEqual(self.data(".timeline-canvas", "rows"), "16")

    # What happens to links and jobs.

    def signs(self):
        """x of every sign of the timeline's strip, and how many events it stands for."""
        return [(float(x), int(many)) for x, many in
                (sign.split(":") for sign in self.data(".timeline-canvas", "groups").split())]

    def test_events_have_signs_with_words(self):
        self.open("events")
        self.assertEqual(self.data(".timeline-canvas", "marks"), "13")
        legend = self.run_js("[...document.querySelectorAll('#timeline [data-mark]')].map(e => e.dataset.mark)")
        self.assertEqual(legend, ["fail", "down", "bandwidth", "up", "start", "end"])
        left, top, _, _ = self.into_view(".timeline-canvas")
        signs = self.signs()
        self.assertEqual(sum(many for _, many in signs), 13)
        said = []
        for x, many in signs:
            BROWSER.mouse("mouseMoved", left + x, top + 34)
            BROWSER.settle()
            said.append(self.text(".tooltip"))
            self.assertIn(f"{many} events" if many > 1 else "At", said[-1])
        for wanted in ("gpu3 – ib0: fails", "gpu3 – ib0: returns", "gpu9 – ib0: changes to 5 GB/s",
                       "gpu12 – ib0: fails", "pretrain of research starts", "evaluate of product fails", "finetune of product ends"):
            self.assertEqual(sum(wanted in tip for tip in said), 1, wanted)
        # Close together they are one sign, apart when looked at closely.
        x = next(x for x, many in signs if many == 3)
        self.wheel(left + x, top + 60, -600)
        self.assertGreater(len([x for x, _ in self.signs()]), 1)
        self.assertLess(max(many for _, many in self.signs()), 3)

    def test_events_are_listed_and_reached_by_keys(self):
        self.open("events")
        self.into_view(".timeline-canvas")
        self.run_js("document.querySelector('.timeline-canvas').focus()")
        said = []
        for _ in range(3):
            BROWSER.key("]")
            said.append(self.text("#timeline footer"))
        self.assertIn("pretrain of research starts", said[0])
        self.assertIn("finetune of product starts", said[1])
        self.assertIn("gpu3 – ib0: fails", said[2])
        BROWSER.key("[")
        self.assertIn("finetune of product starts", self.text("#timeline footer"))
        self.assertEqual(self.count(".events tbody tr"), 13)
        self.run_js("document.querySelectorAll('.events tbody button')[4].click()")
        BROWSER.settle()
        self.assertIn("gpu9 – ib0: changes to 5 GB/s", self.text("#timeline footer"))

    def test_links_that_were_down_are_drawn_so(self):
        self.open("events")
        self.assertEqual(self.count("svg.fabric path.was-down"), 6, "both directions of three cables")
        self.assertEqual(self.count("svg.fabric path.down"), 0)
        self.run_js("document.querySelector('input[name=metric][value=moment]').click()")
        BROWSER.settle()
        crossed = """[...document.querySelectorAll('svg.fabric .cross')]
            .filter(c => c.getAttribute('visibility') == 'visible').length"""
        steps = int(self.run_js("document.querySelector('.slider input').max")) + 1
        for part, down in ((0.1, 0), (0.3, 2), (0.5, 0), (0.9, 2)):
            self.set_value(".slider input", str(int(part * steps)), "input")
            self.assertEqual(self.count("svg.fabric path.down"), down, part)
            self.assertEqual(self.run_js(crossed), down // 2, part)
        self.set_value("#timeline select", "link", "change")
        self.type_into("#timeline header > input[type=search]", "-> gpu3")
        left, top, width, _ = self.into_view(".timeline-canvas")
        high = 5 if self.count("#timeline button[aria-pressed=true]") else 20
        tips = []
        for row in range(int(self.data(".timeline-canvas", "rows"))):
            BROWSER.mouse("mouseMoved", left + 190 + (width - 190) * 0.3, top + 44 + (row + 0.5) * high)
            BROWSER.settle()
            tips.append(self.text(".tooltip"))
        self.assertTrue(any("ib0 -> gpu3" in tip and "Down1.26 ms – 2.83 ms" in tip for tip in tips), tips)

    def test_failed_jobs_say_so(self):
        self.open("events")
        cells = self.run_js("[...document.querySelectorAll('#jobs tbody tr')].map(r => r.children[6].textContent)")
        self.assertEqual(cells, ["1.23 ×", "1.05 ×", "failed"])

    def test_without_events_there_is_no_strip(self):
        self.open("box")
        self.assertEqual(self.data(".timeline-canvas", "marks"), "0")
        self.assertEqual(self.count("#timeline [data-mark], .events"), 0)

    # The rest.

    def test_ranks_have_bars_that_add_up(self):
        self.open("box")
        widths = self.run_js("""[...document.querySelectorAll('.bars .bar[role=img]')]
            .map(b => [...b.children].reduce((sum, i) => sum + parseFloat(i.style.width), 0))""")
        self.assertEqual(len(widths), 8)
        for width in widths:
            self.assertAlmostEqual(width, 100, delta=0.1)
        self.open("ranks1024")
        self.assertEqual(self.data(".skyline canvas", "columns"), "1024")

    def test_jobs_have_slow_downs(self):
        self.open("jobs")
        cells = self.run_js("[...document.querySelectorAll('#jobs tbody tr')].map(r => r.children[6].textContent)")
        self.assertEqual(cells, ["1.23 ×", "1.05 ×", "–"])

    def test_the_sweep_is_a_chart_and_a_table(self):
        self.open("sweep")
        self.assertEqual((self.data(".chart", "plans"), self.data(".chart", "sizes")), ("3", "23"))
        self.assertGreater(self.colours_on(".chart canvas"), 10)
        self.assertEqual(self.count("#throughput details tbody tr"), 69)
        self.assertIn("forest 172 GB/s · fastest", self.text("#throughput footer"))

    def test_what_would_help_stands_by_gain(self):
        self.open("box")
        gains = self.run_js("[...document.querySelectorAll('#what-if tbody tr')].map(r => r.lastChild.textContent)")
        self.assertEqual(gains, ["39 %", "3.0 %", "0.1 %"])

    def test_colours_follow_the_reader_and_paper_is_light(self):
        self.open("box")
        page = "getComputedStyle(document.body).backgroundColor"
        line = "document.querySelector('svg.fabric path.line').getAttribute('stroke')"
        light, light_line = self.run_js(page), self.run_js(line)
        BROWSER.media(dark=True)
        self.assertLess(luminance(self.run_js(page)), 40)
        self.assertNotEqual(self.run_js(line), light_line)
        BROWSER.media("print", dark=True)
        self.assertEqual(self.run_js(page), light)
        self.assertEqual(self.run_js(line), light_line)
        self.assertEqual(self.run_js("getComputedStyle(document.querySelector('nav')).display"), "none")
        BROWSER.media()
        self.run_js("document.querySelector('button.theme').click()")
        BROWSER.settle()
        self.assertLess(luminance(self.run_js(page)), 40)

    def test_nothing_is_wider_than_the_window(self):
        for name in ("box", "hostile", "jobs"):
            for width in (1900, 1100, 640):
                with self.subTest(f"{name} at {width}"):
                    self.open(name)
                    BROWSER.size(width, 900)
                    BROWSER.settle()
                    self.assertLessEqual(self.run_js("document.documentElement.scrollWidth"), width)


def take_pictures(folder):
    for name in ALL:
        for dark in (False, True):
            BROWSER.size(1400, 900)
            BROWSER.media(dark=dark)
            BROWSER.open(os.path.join(FOLDER, name + ".html"))
            BROWSER.screenshot(os.path.join(folder, name + ("-dark" if dark else "") + ".png"), whole=True)


def main():
    global BROWSER, FOLDER
    path = chromium.find()
    if path is None:
        print("skipped: this machine has no Chromium (tools/deps page)")
        return 77
    samples, pictures = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as FOLDER:
        subprocess.run([samples, FOLDER], check=True, stdout=subprocess.DEVNULL)
        with chromium.Browser(path) as BROWSER:
            chromium.BrowserTest.browser = BROWSER
            if pictures:
                os.makedirs(pictures, exist_ok=True)
                take_pictures(pictures)
            result = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
