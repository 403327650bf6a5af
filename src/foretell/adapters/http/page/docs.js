// The interface, read from its own description.

import { element } from "/page/words.js";

const place = document.getElementById("operations");

function body(operation) {
  const content = operation.requestBody?.content || {};
  return Object.entries(content).map(([type, { schema }]) =>
    element("details", {}, element("summary", {}, `Body as ${type}`),
      element("pre", { tabIndex: 0 }, JSON.stringify(schema, null, 1))));
}

function parameters(operation) {
  return (operation.parameters || []).map((p) => {
    const { title, description, ...schema } = p.schema;
    const text = `${p.in === "path" ? "in the path" : p.required ? "needed" : "optional"}: ` +
      `${p.description || ""} ${JSON.stringify(schema)}`;
    return element("li", {}, element("code", {}, p.name), ` ${text}`);
  });
}

function answers(operation) {
  return Object.entries(operation.responses).map(([status, answer]) => {
    const types = Object.entries(answer.content || {}).map(([type, { schema }]) => {
      const name = schema?.$ref ? schema.$ref.split("/").pop() : "";
      return name ? `${type} (${name})` : type;
    });
    return element("li", {}, element("code", {}, status), ` ${types.join(", ")}`);
  });
}

function section(path, method, operation) {
  return element("section", {},
    element("h3", {}, element("span", { className: "verb" }, method.toUpperCase()), " ", element("code", {}, path)),
    element("p", {}, operation.description || operation.summary),
    element("ul", {}, ...parameters(operation)),
    ...body(operation),
    element("details", {}, element("summary", {}, "Answers"), element("ul", {}, ...answers(operation))));
}

async function start() {
  const api = await (await fetch("/openapi.json")).json();
  const sections = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => section(path, method, operation)));
  const shapes = Object.entries(api.components.schemas).map(([name, schema]) =>
    element("details", {}, element("summary", {}, name), element("pre", { tabIndex: 0 }, JSON.stringify(schema, null, 1))));
  place.replaceChildren(
    element("p", {}, api.info.summary || ""), ...sections,
    element("section", {}, element("h2", {}, "Shapes"), ...shapes));
}

start();
