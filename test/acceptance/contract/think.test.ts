import { describe } from "vitest";
import { findHost } from "../app/hosts.ts";
import { contract } from "./contract.ts";
import { nestedContract } from "./nested.ts";

contract(findHost("DurableThink"));
contract(findHost("sub-agent of DurableThink"));

const nested = findHost("sub-agent of a sub-agent of DurableThink");
describe(nested.title, () => nestedContract(nested));
