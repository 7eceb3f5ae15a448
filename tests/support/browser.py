"""A headless Chromium, driven over its remote debugging pipe: no driver and no library is needed.

with browser(tmp_path) as page:
    page.open("http://127.0.0.1:8000/docs")
    page.run("document.title")
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 120

_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    " ": (32, " "),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}
"""Windows' virtual key code and the text of each key."""


class Page:
    """One page of the browser."""

    def __init__(self, commands: int, events: int) -> None:
        self._commands = commands
        self._events = events
        self._unread = b""
        self._kept: list[dict[str, Any]] = []
        self._last_id = 0
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setFocusEmulationEnabled", enabled=True)

    def open(self, url: str) -> None:
        """Load a page and wait for its `load` event."""
        self._kept.clear()
        self._call("Page.navigate", url=url)
        while all(event["method"] != "Page.loadEventFired" for event in self._kept):
            self._receive()

    def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited.

        Raises AssertionError when the script throws.
        """
        found = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, condition: str) -> bool:
        """Wait until an expression is truthy, now or after a change of the page."""
        found: bool = self.run(
            f"new Promise((resolve) => {{ const look = () => {{ if ({condition}) resolve(true); }};"
            "new MutationObserver(look).observe(document, "
            "{childList: true, subtree: true, attributes: true, characterData: true}); look(); })"
        )
        return found

    def click(self, selector: str) -> None:
        """Wait for an element and click it."""
        self.wait_for(f"document.querySelector('{selector}')")
        self.run(f"document.querySelector('{selector}').click()")

    def type(self, selector: str, text: str) -> None:
        """Wait for an input field and set its text."""
        self.wait_for(f"document.querySelector('{selector}')")
        # React takes a value that was set by the setter of the element's class.
        self.run(
            f"(() => {{ const field = document.querySelector('{selector}');"
            "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')"
            f".set.call(field, {json.dumps(text)});"
            "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def press(self, key: str, *, control: bool = False) -> None:
        """Press and release a key of `_KEYS`."""
        code, text = _KEYS[key]
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 2 * control}
        self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def point(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        x, y = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "found.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = found.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width: int, height: int, *, is_phone: bool = False) -> None:
        """Set the size of the window in CSS pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )

    def prefer(self, **features: str) -> None:
        """Set media features of the user, such as `color_scheme="dark"`."""
        named = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self._call("Emulation.setEmulatedMedia", features=named)

    def inject(self, script: str) -> None:
        """Run a script that the page's own Content-Security-Policy would not allow."""
        self._call("Page.setBypassCSP", enabled=True)
        self.run(script)

    def picture(self, *, height: int | None = None) -> bytes:
        """Return a PNG of the window, or of the page down to `height`."""
        clip = {}
        if height is not None:
            width = self.run("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        found = self._call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=bool(clip), **clip
        )
        return base64.b64decode(found["data"])

    def allow(self, *permissions: str) -> None:
        """Grant permissions of the browser to every page, such as `clipboardReadWrite`."""
        session, self._session = self._session, ""
        self._call("Browser.grantPermissions", permissions=permissions)
        self._session = session

    def write(self, text: str) -> None:
        """Write a text into the element that has the focus, as a keyboard does."""
        self._call("Input.insertText", text=text)

    def events(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the events of a method since the page was last opened."""
        self.run("0")  # events that came before its answer are read with it
        return [event["params"] for event in self._kept if event.get("method") == method]

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._last_id:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            some = os.read(self._events, 1 << 16)
            assert some, "the browser has ended"
            self._unread += some
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._kept.append(message)
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start Chromium with a profile in `folder`; skip the test where there is none."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is installed: browsers are not tested")
    # Chromium reads commands from descriptor 3 and writes events to descriptor 4.
    command_end, our_commands = os.pipe()
    our_events, event_end = os.pipe()
    process = subprocess.Popen(
        [
            *("bash", "-c", f'exec "$@" 3<&{command_end} 4>&{event_end}', "bash", program),
            *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
            *("--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"),
        ],
        pass_fds=(command_end, event_end),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_end)
    os.close(event_end)
    try:
        yield Page(our_commands, our_events)
    finally:
        os.close(our_commands)
        os.close(our_events)
        process.kill()
        process.wait(_SECONDS)
