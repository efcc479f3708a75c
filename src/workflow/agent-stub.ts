/**
 * Stubs that survive their agent's crashes. A stub whose object went down
 * stays broken, so that every retry through it fails at once; a new stub
 * reaches the restarted object.
 * https://developers.cloudflare.com/durable-objects/best-practices/error-handling/
 */

/**
 * A new stub for the same object, found by its id among the Worker's
 * bindings; the old one where there is none, as for a sub-agent, which is
 * reached through its parent.
 */
export function renewed<Stub extends object>(env: object, stub: Stub): Stub {
  const { id } = stub as { id?: Partial<DurableObjectId> };
  if (typeof id !== "object" || typeof id.name !== "string") return stub;
  const { name } = id;
  const namespace = Object.values(env).find(
    (binding): binding is DurableObjectNamespace =>
      isNamespace(binding) && binding.idFromName(name).equals(id as DurableObjectId),
  );
  return namespace ? (namespace.getByName(name) as unknown as Stub) : stub;
}

/** By its class, and not by its methods: a service binding answers to every name. */
function isNamespace(binding: unknown): binding is DurableObjectNamespace {
  return (
    typeof binding === "object" &&
    binding !== null &&
    binding.constructor.name === "DurableObjectNamespace"
  );
}
