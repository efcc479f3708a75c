import { describe } from "vitest";
import { findHost } from "../app/hosts.ts";
import { contract } from "./contract.ts";
import { nestedContract } from "./nested.ts";

contract(findHost("DurableChatAgent"));
contract(findHost("sub-agent of DurableChatAgent"));

const nested = findHost("sub-agent of a sub-agent of DurableChatAgent");
describe(nested.title, () => nestedContract(nested));
