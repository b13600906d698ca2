"""Chromium without a screen, driven over a pipe (--remote-debugging-pipe): only the standard library is needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

NAMES = ("chromium", "chromium-browser", "google-chrome")
SILENCE = 60  # seconds


class Silence(RuntimeError):
    """The browser or its page has ended, or answers nothing any more."""


class BrowserTest(unittest.TestCase):
    """A test with a browser. One that falls silent, as Chromium on a crowded machine now and then does, is replaced, and
    the test begins anew: a second silence is the page's."""
    browser = None  # the Browser of all tests; whoever makes it says so

    def _callTestMethod(self, method):
        try:
            method()
        except Silence as silence:
            print(f"{silence}; it is replaced ...", end=" ", file=sys.stderr, flush=True)
            self.browser.begin_anew()
            self.doCleanups()
            method()


def find():
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. Collects what the page logs, throws and asks the network for."""

    def __init__(self, path):
        self.path = path
        try:
            self._begin()
        except Silence as silence:
            print(f"{silence}; another one is begun", file=sys.stderr)
            try:
                self.begin_anew()
            except Silence:
                self._end()
                raise

    def begin_anew(self):
        self._end()
        self._begin()

    def _begin(self):
        self.folder = tempfile.mkdtemp(prefix="banyan-browser-")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()

        def give_pipes():  # Chromium reads from 3 and writes to 4; high numbers first, so that none is overwritten
            high = [os.dup(fd) for fd in (from_us, to_us)]
            while min(high) < 10:
                high = [os.dup(fd) for fd in high]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [self.path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--force-device-scale-factor=1", "--remote-debugging-pipe", "--user-data-dir=" + self.folder,
             "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=give_pipes)
        os.close(from_us)
        os.close(to_us)
        self.buffer, self.last, self.number, self.session = b"", b"", 0, None
        self.errors, self.requests, self.loaded = [], [], False
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(timeout=20)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            pass
        self._end()

    def _end(self):
        self.process.kill()
        self.process.wait(timeout=20)
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # What the protocol is made of.

    def _read(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise Silence(f"the browser says nothing for {seconds} s; the last was {self.last}")
            block = os.read(self.from_browser, 1 << 20)
            if not block:
                raise Silence(f"the browser has ended; the last was {self.last}")
            self.buffer += block
        message, self.buffer = self.buffer.split(b"\0", 1)
        self.last = message[:200]
        message = json.loads(message)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif method in ("Inspector.targetCrashed", "Inspector.detached"):  # which then answers nothing any more
            raise Silence(f"the page is gone: {method} {params}")
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        try:
            os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise Silence(f"the browser has ended; the last was {self.last}") from None
        while True:
            answer = self._read(SILENCE)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    # What tests say.

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, name="", dark=False):
        """The medium of the page ("" or "print"), and the preferences of its reader."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=name, features=[scheme])
        self.settle()

    def open(self, path):
        self.visit("file://" + path)

    def visit(self, url):
        self.errors, self.requests, self.loaded = [], [], False
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self._read(SILENCE)
        self.settle()

    def run(self, code):
        """The value of an expression in the page; it may be a promise."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def settle(self):
        """Until everything that waits for the next frames has been drawn."""
        self.run("""new Promise(done => {
            const frames = left => left > 0 ? requestAnimationFrame(() => frames(left - 1)) : setTimeout(done, 0);
            frames(3); })""")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def key(self, key):
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path, whole=False):
        if whole:
            height = self.run("document.documentElement.scrollHeight")
            width = self.run("innerWidth")
            self.size(width, min(height, 8000))
            self.settle()
            self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
