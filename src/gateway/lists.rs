//! The lists of several servers as one.

use serde_json::value::RawValue;

use super::names;
use super::roster::{Entry, Selected};
use crate::json::Members;
use crate::mcp::{Announced, Offer, RpcError, RpcResult, Version, join};
use crate::time::Clock;

/// A list that servers have, and how its elements are named.
struct List {
    method: &'static str,
    /// Of the result.
    member: &'static str,
    /// Of an element, by which it is asked for.
    named: &'static str,
}

const LISTS: [List; 4] = [
    List {
        method: "tools/list",
        member: "tools",
        named: "name",
    },
    List {
        method: "prompts/list",
        member: "prompts",
        named: "name",
    },
    List {
        method: "resources/list",
        member: "resources",
        named: "uri",
    },
    List {
        method: "resources/templates/list",
        member: "resourceTemplates",
        named: "uriTemplate",
    },
];

/// What the gateway adds to the instructions of what is behind it.
const INSTRUCTIONS: &str = "Some tools here ask a person before they act. Such a call waits until the person has \
    answered; a refusal says why, and nothing has then happened.";

/// Bytes of one server's instructions that are passed on.
const INSTRUCTION_BYTES: usize = 4_096;

impl Selected {
    /// Whether that method asks for a list.
    pub(super) fn is_list(method: &str) -> bool {
        LISTS.iter().any(|list| list.method == method)
    }

    /// A whole list of every server, in the order of their slugs. One that does not answer in time is left out, and the
    /// log says so; where it is the only one, its fault is the answer.
    pub(super) async fn list(
        &self,
        method: &str,
        version: Version,
        clock: &Clock,
    ) -> Result<RpcResult, RpcError> {
        let list = LISTS
            .iter()
            .find(|list| list.method == method)
            .ok_or_else(|| RpcError::new(-32601, "there is no such list"))?;
        let lists = join::all(
            self.entries
                .iter()
                .map(|entry| entry.upstream.list(list.method, list.member, clock)),
        )
        .await;
        let mut all = Vec::new();
        // Tools are what a gateway is for: there may be none, but there is a list of them.
        let mut any = list.member == "tools";
        for (entry, listed) in self.entries.iter().zip(lists) {
            match listed {
                Ok(None) => {}
                Ok(Some(listed)) => {
                    any = true;
                    let elements = listed.into_iter();
                    all.extend(
                        elements.filter_map(|element| self.element(list, entry, &element, version)),
                    );
                }
                Err(why) if self.prefixed => {
                    log::warn!("{} is missing from {method}: {why}", entry.server.slug);
                }
                Err(why) => {
                    return Err(RpcError::new(
                        -32603,
                        format!("{}: {why}", entry.server.slug),
                    ));
                }
            }
        }
        if !any {
            // "Unknown or unadvertised method."
            return Err(RpcError::new(
                -32601,
                format!("no server here has {}", list.member),
            ));
        }
        let all: Vec<&str> = all.iter().map(|element| element.get()).collect();
        let mut result = RpcResult::default();
        result.set(list.member, format!("[{}]", all.join(",")));
        Ok(result)
    }

    /// One element under its name here; `None` for one that cannot be used from here.
    fn element(
        &self,
        list: &List,
        entry: &Entry,
        element: &RawValue,
        version: Version,
    ) -> Option<Box<RawValue>> {
        let slug = entry.server.slug.as_str();
        let element = if list.member == "tools" {
            tool(element, version)?
        } else {
            element.to_owned()
        };
        if !self.prefixed {
            return Some(element);
        }
        names::renamed(&element, list.named, |name| match list.named {
            "name" => names::of_tool(slug, name),
            _ => names::of_resource(slug, name),
        })
    }

    /// What all of them have together. "Capabilities are what really works": a server that does not answer has none.
    pub(super) async fn offer(&self, clock: &Clock) -> Offer {
        let offers = join::all(self.entries.iter().map(|entry| entry.upstream.offer(clock))).await;
        let mut all = Offer {
            tools: Some(Announced(true)),
            instructions: INSTRUCTIONS.to_owned(),
            ..Offer::default()
        };
        let mut missing = Vec::new();
        for (entry, offer) in self.entries.iter().zip(offers) {
            let slug = entry.server.slug.as_str();
            match offer {
                Ok(offer) => {
                    all.prompts = either(all.prompts, offer.prompts);
                    all.resources = either(all.resources, offer.resources);
                    all.subscribe |= offer.subscribe;
                    all.completions |= offer.completions;
                    all.logging |= offer.logging;
                    all.tasks |= offer.tasks;
                    let theirs: String = shortened(&offer.instructions);
                    if !theirs.is_empty() {
                        // It is their word, and says so.
                        all.instructions += &format!("\n\nThe server {slug} says: {theirs}");
                    }
                }
                Err(why) => {
                    log::warn!("{slug} cannot be asked what it has: {why}");
                    missing.push(slug);
                }
            }
        }
        if !missing.is_empty() {
            all.instructions += &format!("\n\nNot available now: {}.", missing.join(", "));
        }
        all
    }
}

/// A list that one of two has, and whether a change is announced of either.
fn either(one: Option<Announced>, other: Option<Announced>) -> Option<Announced> {
    match (one, other) {
        (Some(Announced(one)), Some(Announced(other))) => Some(Announced(one || other)),
        (one, other) => one.or(other),
    }
}

/// A tool as it is listed here. `execution` is of 2025-11-25 alone: a tool that runs only as a task of that revision
/// cannot be called from here. In the legacy era an `outputSchema` is that of an object.
fn tool(tool: &RawValue, version: Version) -> Option<Box<RawValue>> {
    let members = Members::parse(tool.get()).ok()?;
    let execution = members
        .get("execution")
        .and_then(|execution| Members::parse(execution.get()).ok());
    let support = execution.and_then(|execution| execution.get("taskSupport"));
    if support.is_some_and(|support| support.get() == "\"required\"") {
        return None;
    }
    let output = members.get("outputSchema");
    let output = output.and_then(|schema| Members::parse(schema.get()).ok()?.get("type"));
    let of_object = output.is_some_and(|kind| kind.get() == "\"object\"");
    match version.is_modern() || of_object {
        true => Some(names::without(tool, &["execution"])),
        false => Some(names::without(tool, &["execution", "outputSchema"])),
    }
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(INSTRUCTION_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
