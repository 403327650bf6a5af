// Requests to the server, with the token if there is one, and problems as errors.

const TOKEN = "foretell-token";

export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set: (value) => sessionStorage.setItem(TOKEN, value),
};

export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.title);
    this.status = problem.status;
  }
}

export async function ask(path, body, signal) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, detail: "The server does not answer." });
  }
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  return answer;
}

// Asks only for the latest: what was asked before is dropped, answered or not.
export function latest(work, delay = 60) {
  let timer, controller;
  return (...args) => {
    clearTimeout(timer);
    controller?.abort();
    timer = setTimeout(async () => {
      const own = (controller = new AbortController());
      try {
        await work(own.signal, ...args);
      } catch (error) {
        if (error.name !== "AbortError") throw error;
      }
    }, delay);
  };
}
