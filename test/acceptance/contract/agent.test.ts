import { describe } from "vitest";
import { findHost } from "../app/hosts.ts";
import { contract } from "./contract.ts";
import { nestedContract } from "./nested.ts";

contract(findHost("DurableAgent"));
contract(findHost("sub-agent of DurableAgent"));

const nested = findHost("sub-agent of a sub-agent of DurableAgent");
describe(nested.title, () => nestedContract(nested));
