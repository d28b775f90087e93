// The library in WebAssembly, where the page has it: requests and answers in JSON. `ORIAS_ENGINE` is the module, compressed, in the
// letters of base64, from the script beside the page.

class Engine {
  static isThere() {
    return typeof ORIAS_ENGINE === "string";
  }

  static async start() {
    const letters = atob(ORIAS_ENGINE);
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const engine = new Engine();
    engine.module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    await engine.renew();
    return engine;
  }

  async renew() {
    this.instance = await WebAssembly.instantiate(this.module, {});
  }

  // Answers a request. A trap is a defect of the library: it is told as an error, and the engine starts anew.
  async call(request) {
    const text = new TextEncoder().encode(JSON.stringify(request));
    try {
      const { memory, orias_request, orias_call, orias_answer } = this.instance.exports;
      const at = orias_request(text.length) >>> 0;
      new Uint8Array(memory.buffer, at, text.length).set(text);
      const length = orias_call() >>> 0;
      const answer = new Uint8Array(memory.buffer, orias_answer() >>> 0, length);
      return JSON.parse(new TextDecoder().decode(answer));
    } catch (error) {
      await this.renew();
      const text = `the library stopped: ${error.message}`;
      return { ok: false, error: text, messages: [{ severity: "error", text }] };
    }
  }
}
