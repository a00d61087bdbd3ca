// Search from a folder: browsers start no worker for file:// addresses, so that the search's own
// script runs in a hidden frame instead, and messages go to and fro between the two windows.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.onmessage = null;
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    const source = String(url).replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    this.frame.srcdoc =
      "<script>self.postMessage = (data) => parent.postMessage(data, '*')</script>" +
      `<script src="${source}"></script>`;
    this.loaded = new Promise((done) => this.frame.addEventListener("load", done));
    this.heard = (event) => {
      if (event.source !== this.frame.contentWindow) return;
      const message = new MessageEvent("message", { data: event.data });
      this.dispatchEvent(message);
      if (this.onmessage) this.onmessage(message);
    };
    addEventListener("message", this.heard);
    document.body.append(this.frame);
  }

  postMessage(data) {
    // The frame's own postMessage answers: what it is to hear is handed over as an event.
    this.loaded.then(() =>
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })),
    );
  }

  terminate() {
    removeEventListener("message", this.heard);
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
