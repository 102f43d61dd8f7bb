#!/usr/bin/env python3
# report_page.py - opens pages that dcptool report wrote in Chromium without a window, and looks at what they show.
#
#     report_page.py CHROMIUM [NAME PAGE JSON]...      NAME: a function below; JSON: what --json printed for the page
#
# It speaks the Chrome DevTools Protocol over a pipe: one browser for all pages. Exit status 0: all is as it should be.
import base64, json, os, select, subprocess, sys, tempfile, time

class Browser:
    """One tab. What the console says, what fails and what is fetched is kept in `complaints` and `requests`."""
    def __init__(self, program, profile):
        to_browser, self.to = os.pipe()
        self.of, from_browser = os.pipe()
        def arrange():                                  # the browser reads from 3 and writes to 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--user-data-dir=" + profile, "about:blank"],
            close_fds=False, preexec_fn=arrange, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.held, self.number, self.session, self.events = b"", 0, None, []
        self.complaints, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")

    def message(self, timeout=60):
        while b"\0" not in self.held:
            if not select.select([self.of], [], [], timeout)[0]:
                raise TimeoutError("the browser says nothing")
            data = os.read(self.of, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.held += data
        text, self.held = self.held.split(b"\0", 1)
        return json.loads(text)

    def hear(self, message):
        method, p = message.get("method"), message.get("params")
        if method == "Runtime.exceptionThrown":
            self.complaints.append(p["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append("console: %s" % p["args"])
        elif method == "Log.entryAdded":
            self.complaints.append("log: " + p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])
        self.events.append(method)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.hear(message)

    def open(self, path):
        """The seconds until it is ready."""
        self.complaints, self.requests, self.events = [], [], []
        begun = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while "Page.loadEventFired" not in self.events:
            self.hear(self.message())
        assert self.of_page("document.documentElement.dataset.ready") == "yes", self.complaints
        return time.monotonic() - begun

    def of_page(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def press(self, *keys):
        codes = {"Enter": 13, "Escape": 27, "Home": 36, "End": 35, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40, "PageDown": 34}
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
            event = dict(key=key, code=key, windowsVirtualKeyCode=codes.get(key, ord(key[0].upper())), **text)
            self.call("Input.dispatchKeyEvent", type="keyDown", **event)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def look(self, width, height=900, dark=False, medium=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=medium,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.of_page("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": {
            "x": 0, "y": 0, "width": self.of_page("innerWidth"), "scale": 1,
            "height": self.of_page("document.documentElement.scrollHeight")}} if whole else {}))
        with open(path, "wb") as f:
            f.write(base64.b64decode(data["data"]))

    def print(self, path):
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(data["data"]))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (EOFError, BrokenPipeError):
            pass
        self.process.wait(timeout=20)

# ---- what a page must show -------------------------------------------------------------------------------------------
def bytes_text(n):
    unit = -1
    while n >= 1023.95 and unit < 4:
        n, unit = n / 1024, unit + 1
    if unit < 0:
        return "%d byte%s" % (n, "" if n == 1 else "s")
    return "%.1f %s" % (n, "KiB MiB GiB TiB PiB".split()[unit])

def rows(b):
    """The texts of the cells that are built, by row."""
    return b.of_page("[...document.querySelectorAll('.scroll .row')].sort((a, b) => a.getAttribute('aria-rowindex') - "
                     "b.getAttribute('aria-rowindex')).map(r => [...r.children].map(c => c.textContent))")

def boxes(b):
    return b.of_page("[...document.querySelectorAll('#map [data-box]')].map(g => g.getAttribute('aria-label'))")

def focused(b):
    return b.of_page("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")

def visible(name):
    return "".join("U+%04x" % ord(c) if ord(c) < 32 or c in "\x7f\u202e\u2066\u2028\u200f\ufeff" else c for c in name)

def search(b, text):
    b.of_page("document.querySelector('#search').focus()")
    b.of_page("(i => { i.value = %s; i.dispatchEvent(new Event('input')); })(document.querySelector('#search'))"
              % json.dumps(text))

def is_sound(b, page, data):
    """No word on the console, nothing fetched, and the data is that of --json."""
    seconds = b.open(page)
    assert json.loads(b.of_page("document.querySelector('#data').textContent")) == data
    assert b.of_page("document.querySelector('#title').textContent") == visible(data["name"])
    return seconds

def is_silent(b):
    assert not b.complaints, b.complaints
    assert len(b.requests) == 1 and b.requests[0].startswith("file:"), b.requests

def check_tensors(b, data):
    """Each tensor is in the table and, if it has bytes, in the map, by its name, type and size."""
    by_size = sorted(data["tensors"], key=lambda t: -t["bytes"])
    shown = rows(b)
    assert len(shown) == len(by_size) and [r[3] for r in shown] == [bytes_text(t["bytes"]) for t in by_size], shown
    assert {(r[0], r[1]) for r in shown} == {(visible(t["name"]), t["type"]) for t in by_size}, shown
    labels = boxes(b)
    for t in by_size:
        found = [x for x in labels if x.startswith("%s, %s " % (visible(t["name"]), t["type"]))]
        assert len(found) == (t["bytes"] > 0), (t, labels)
        assert all(", %s, " % bytes_text(t["bytes"]) in label for label in found), (t, labels)
    sizes = b.of_page("[...document.querySelectorAll('#map .box')].map(r => r.getAttribute('width') * "
                      "r.getAttribute('height'))")
    assert len(sizes) == sum(t["bytes"] > 0 for t in by_size)
    facts = b.of_page("document.querySelector('#facts').textContent")
    assert "Tensors%d" % len(by_size) in facts and "Size" + bytes_text(data["bytes"]) in facts, facts

def checkpoint(b, page, data):
    is_sound(b, page, data)
    check_tensors(b, data)
    names = [t["name"] for t in data["tensors"]]
    largest = max(data["tensors"], key=lambda t: t["bytes"])["name"]
    title = "document.querySelector('#tensor-title').textContent"
    assert b.of_page(title) == largest
    # by keyboard alone: search, go down, open
    b.press("/")
    assert b.of_page("document.activeElement.id") == "search"
    search(b, names[0])
    assert [r[0] for r in rows(b)] == [n for n in names if names[0] in n]
    b.press("ArrowDown", "ArrowDown", "Enter")
    assert b.of_page(title) == names[0], b.of_page(title)
    assert b.of_page("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    b.press("/", "Escape")
    assert len(rows(b)) == len(names)
    # another order, and back
    b.of_page("document.querySelector('.head button').focus()")
    b.press("Enter")
    assert [r[0] for r in rows(b)] == sorted(names), rows(b)
    b.press("Enter")
    assert [r[0] for r in rows(b)] == sorted(names, reverse=True)
    # the choice of colours, by arrows
    b.of_page("document.querySelector('#colours [tabindex=\"0\"]').focus()")
    before = b.of_page("document.querySelector('.legend').textContent")
    b.press("ArrowRight")
    assert b.of_page("document.activeElement.getAttribute('aria-checked')") == "true"
    assert b.of_page("document.querySelector('.legend').textContent") != before
    # through the map: the first box, another one, into it
    b.of_page("document.querySelector('#map [tabindex=\"0\"]').focus()")
    first = focused(b)
    b.press("ArrowRight")
    second = focused(b)
    assert first != second and second in boxes(b), (first, second)
    b.press("Enter")
    assert second.startswith(b.of_page(title) + ","), (second, b.of_page(title))
    is_silent(b)

def difference(b, page, data):
    is_sound(b, page, data)
    shown = {r[0]: r[-1] for r in rows(b)}
    for t in data["tensors"]:
        d = t["difference"]
        want = "same" if not d else "%.4g" % d["largest_relative"] if d.get("numbers") else None
        assert shown[t["name"]] == want, (t, shown)
    assert b.of_page("document.querySelector('#colours [aria-checked=true]').textContent") == "Difference"
    is_silent(b)

def ranks(b, page, data):
    """Each part of a tensor where it is, and as large."""
    is_sound(b, page, data)
    for t in data["tensors"]:
        b.of_page("document.querySelector('.scroll').focus()")
        search(b, t["name"])
        b.press("ArrowDown", "ArrowDown", "Enter")
        got = b.of_page("[...document.querySelectorAll('#tensor .part')].map(r => [r.parentNode.getAttribute("
                        "'aria-label')].concat(['x', 'y', 'width', 'height'].map(k => Number(r.getAttribute(k)))))")
        assert len(got) == len(t["pieces"]), (t, got)
        for (label, x, y, width, height), piece in zip(got, t["pieces"]):
            assert label.startswith("rank %d: " % data["shards"][piece[0]]["rank"]), (label, piece)
            assert label.endswith("from byte %d" % piece[1]), (label, piece)
        if t["placement"] == "sharded":                 # they cover the picture, once
            box = [float(n) for n in b.of_page("document.querySelector('#tensor svg').getAttribute('viewBox')").split()]
            area = sum(g[3] * g[4] for g in got)
            assert abs(area - box[2] * box[3]) < 1e-6 * area, (area, box)
    is_silent(b)

def hostile(b, page, data):
    is_sound(b, page, data)
    check_tensors(b, data)
    assert b.of_page("window.broken") is None
    assert b.of_page("document.querySelectorAll('script').length") == 2
    assert b.of_page("document.querySelectorAll('#table b, #map b, img').length") == 0
    is_silent(b)

def directory(b, page, data):
    is_sound(b, page, data)
    shown = rows(b)
    columns = b.of_page("[...document.querySelectorAll('.head > div')].map(d => d.textContent)")
    assert [r[0] for r in shown] == [c["name"] for c in reversed(data["checkpoints"])], shown
    at = columns.index("Written")
    assert [r[at] for r in shown] == [bytes_text(c["bytes_written"]) for c in reversed(data["checkpoints"])], shown
    bars = b.of_page("[...document.querySelectorAll('#steps-section .sheet')].map(s => [...s.querySelectorAll('svg g')]"
                     ".map(g => g.getAttribute('aria-label')))")[0]
    for c, bar in zip(data["checkpoints"], bars):
        assert bar.startswith("%s, %s" % (c["name"], bytes_text(c["bytes"]))), (bar, c)
        assert ("shared" in bar) == (c["bytes_reused"] > 0)
    norms = {t["name"]: t["norms"][-1] for t in data["norms"]["tensors"]}
    got = b.of_page("[...document.querySelectorAll('.multiples li p')].map(p => [...p.children].map("
                    "c => c.textContent))")
    assert len(got) == len(norms) and all(abs(float(v) / norms[n] - 1) < 1e-3 for n, v in got), (got, norms)
    b.of_page("document.querySelector('#steps-section svg g').focus()")
    b.press("ArrowRight")
    assert focused(b).startswith(data["checkpoints"][1]["name"])
    b.press("Enter")
    assert b.of_page("document.querySelector('.scroll [aria-selected=true]').textContent") \
        .startswith(data["checkpoints"][1]["name"])
    is_silent(b)

def many(b, page, data):
    """A hundred thousand tensors: at most 2,000 boxes, few rows, groups that open and close, all of it soon."""
    seconds = is_sound(b, page, data)
    assert seconds < 15, seconds                        # one or two; but a test machine may be busy
    assert 500 < len(boxes(b)) <= 4000 and len(rows(b)) < 60
    assert b.of_page("document.querySelectorAll('#map .box').length") <= 2000
    groups = b.of_page("boxesOf = () => [...document.querySelectorAll('#map [data-box]')], boxesOf().findIndex(g => "
                       "/^[^,]*, [0-9,]+ tensors,/.test(g.getAttribute('aria-label')))")
    assert groups >= 0
    b.of_page("boxesOf()[%d].focus()" % groups)
    inside = focused(b)
    b.press("Enter")
    crumbs = "document.querySelector('.crumbs').textContent"
    assert "All tensors" in b.of_page(crumbs), b.of_page(crumbs)
    assert all(x.startswith(inside.split(",")[0]) or "more tensor" in x for x in boxes(b)), (inside, boxes(b)[:3])
    b.press("Escape")
    assert inside in boxes(b)
    b.of_page("document.querySelector('.scroll').focus()")
    b.press("End")
    assert any(r[0] == b.of_page("document.querySelector('.scroll .active').firstChild.textContent") for r in rows(b))
    for width, height in (400, 800), (1280, 900):
        b.look(width, height)
        assert b.of_page("document.documentElement.scrollWidth") <= width
    is_silent(b)

def main():
    with tempfile.TemporaryDirectory() as profile:
        b = Browser(sys.argv[1], profile)
        try:
            b.look(1280)
            for name, page, data in zip(sys.argv[2::3], sys.argv[3::3], sys.argv[4::3]):
                with open(data, encoding="utf-8") as f:
                    globals()[name](b, page, json.load(f))
        finally:
            b.close()

if __name__ == "__main__":
    main()
