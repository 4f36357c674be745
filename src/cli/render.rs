//! `render`: the environment that a bundle's container needs, for whatever starts it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lexopt::prelude::{Long, Short, ValueExt};

use super::{Failure, check, help, output};
use crate::config::{Config, Kind, ProcessLookup, Reference, Server, SlugLookup, Template};
use crate::json::quote;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Env,
    Compose,
}

/// `countersign render --config FILE --bundle NAME [--format env|compose]`
pub(super) fn run(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let (mut file, mut bundle, mut format) = (None::<PathBuf>, None, Format::Env);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => file = Some(parser.value()?.into()),
            Long("bundle") => bundle = Some(parser.value()?.string()?),
            Long("format") => {
                format = match parser.value()?.string()?.as_str() {
                    "env" => Format::Env,
                    "compose" => Format::Compose,
                    other => {
                        return Err(Failure::Usage(format!(
                            "--format: found {other:?}, allowed: env or compose"
                        )));
                    }
                }
            }
            Long("help") | Short('h') => {
                output::result(help::RENDER);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let config = check::load(file.as_deref())?;
    let bundle = bundle
        .ok_or_else(|| Failure::Usage(format!("--bundle NAME is needed\n\n{}", help::RENDER)))?;
    output::result(render(&config, &bundle, format)?.trim_end());
    Ok(())
}

fn render(config: &Config, bundle: &str, format: Format) -> Result<String, Failure> {
    let wrong = |what: String| Failure::Usage(format!("{}: {what}", config.file));
    let servers: Vec<&Server> = config
        .servers
        .iter()
        .filter(|server| server.bundle() == Some(bundle))
        .collect();
    if servers.is_empty() {
        return Err(wrong(format!("no server is in bundle {bundle:?}")));
    }
    let variables = variables(&servers);
    let mut text = String::new();
    if format == Format::Compose {
        text += &format!("services:\n  {bundle}:\n");
        let image = servers.iter().find_map(|server| match &server.kind {
            Kind::SupplementaryImage { image, .. } => image.as_ref(),
            _ => None,
        });
        if let Some(image) = image {
            text += &format!("    image: {}\n", quote(image));
        }
        text += match variables.is_empty() {
            true => "    environment: {}\n",
            false => "    environment:\n",
        };
    }
    for (name, (server, value)) in &variables {
        match format {
            Format::Env => {
                let lookup = SlugLookup {
                    slug: &server.slug,
                    shared: &ProcessLookup,
                };
                match value.resolve(&lookup) {
                    Ok(value) if value.expose().contains(['\n', '\r']) => {
                        return Err(wrong(format!(
                            "{name} has several lines, which no env file can hold"
                        )));
                    }
                    Ok(value) => text += &format!("{name}={}\n", value.expose()),
                    // Said when the file was read, unless it may be so.
                    Err(_) => text += &format!("# {name} is not set\n"),
                }
            }
            Format::Compose => {
                let value =
                    for_compose(server, value).map_err(|what| wrong(format!("{name}: {what}")))?;
                text += &format!("      {name}: {}\n", quote(&value));
            }
        }
    }
    Ok(text)
}

/// Every variable by its name: bare as it was declared, and once more under the slug's prefix, by which mounts of one
/// process tell theirs apart. "The renderer also emits a doubled … copy, which the host cannot mistake for a slug and
/// ignores" (spec). What a slug declares under a name itself stands.
fn variables<'c>(servers: &[&'c Server]) -> BTreeMap<String, (&'c Server, &'c Template)> {
    let mut variables = BTreeMap::new();
    for server in servers {
        for (name, value) in &server.env {
            let prefixed = format!("{}{name}", server.slug.variable_prefix());
            variables.entry(prefixed).or_insert((*server, &value.value));
        }
    }
    for server in servers {
        for (name, value) in &server.env {
            variables.insert(name.clone(), (*server, &value.value));
        }
    }
    variables
}

/// A value as compose reads it: what it refers to is filled in there, from the slug's own name first.
fn for_compose(server: &Server, value: &Template) -> Result<String, &'static str> {
    let prefix = server.slug.variable_prefix();
    let mut files = false;
    let text = value.written(
        |literal| literal.replace('$', "$$"),
        |reference| match reference {
            Reference::Variable(name) if name.starts_with(&prefix) => format!("${{{name}:-}}"),
            Reference::Variable(name) => format!("${{{prefix}{name}:-${{{name}:-}}}}"),
            Reference::File(_) => {
                files = true;
                String::new()
            }
        },
    );
    match files {
        true => Err("a ${file:…} is read by no compose file; use --format env"),
        false => Ok(text),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SPEC: &str = "servers:
  - slug: onepassword-pulsemcp-provisioning
    kind: supplementary-image
    image: ghcr.io/tadasant/strad-bundle:latest
    bundle: bundle
    path: /onepassword-pulsemcp-provisioning
    confirmations: true
    env:
      ONEPASSWORD_PULSEMCP_PROVISIONING__OP_SERVICE_ACCOUNT_TOKEN: \"${RENDER_TEST_NEVER_SET}\"
      ONEPASSWORD_PULSEMCP_PROVISIONING__OP_ELICITATION_WRITE: \"false\"
  - slug: other
    kind: supplementary-image
    bundle: bundle
    mount: command
    tools: [{name: t, argv: [date]}]
    env: {PLAIN: \"a$b\"}
  - {slug: elsewhere, kind: command, tools: [{name: t, argv: [date]}], env: {NOT: here}}
";

    fn rendered(text: &str, format: Format) -> Result<String, String> {
        let (config, _) = Config::parse("c.yaml", text).unwrap();
        render(&config, "bundle", format).map_err(|failure| failure.to_string())
    }

    #[test]
    fn an_env_file_has_each_name_bare_and_under_its_slug() {
        let prefix = "ONEPASSWORD_PULSEMCP_PROVISIONING__";
        let expected = format!(
            "{prefix}{prefix}OP_ELICITATION_WRITE=false\n# {prefix}{prefix}OP_SERVICE_ACCOUNT_TOKEN is not set\n{prefix}OP_ELICITATION_WRITE=false\n# {prefix}OP_SERVICE_ACCOUNT_TOKEN is not set\nOTHER__PLAIN=a$b\nPLAIN=a$b\n"
        );
        assert_eq!(rendered(SPEC, Format::Env).unwrap(), expected);
    }

    #[test]
    fn a_compose_file_leaves_references_to_compose() {
        let text = rendered(SPEC, Format::Compose).unwrap();
        let token = "ONEPASSWORD_PULSEMCP_PROVISIONING__OP_SERVICE_ACCOUNT_TOKEN: \"${ONEPASSWORD_PULSEMCP_PROVISIONING__RENDER_TEST_NEVER_SET:-${RENDER_TEST_NEVER_SET:-}}\"";
        assert!(
            text.starts_with("services:\n  bundle:\n    image: \"ghcr.io/tadasant/strad-bundle:latest\"\n    environment:\n"),
            "{text}"
        );
        assert!(
            text.contains(token) && text.contains("PLAIN: \"a$$b\""),
            "{text}"
        );
        assert!(!text.contains("NOT"), "{text}");
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let file = SPEC.replace("${RENDER_TEST_NEVER_SET}", "${file:/etc/hostname}");
        assert!(
            rendered(&file, Format::Compose)
                .unwrap_err()
                .contains("--format env")
        );
        let lines = SPEC.replace("a$b", "a\\nb");
        assert!(
            rendered(&lines, Format::Env)
                .unwrap_err()
                .contains("several lines")
        );
        let none = SPEC.replace("bundle: bundle", "bundle: another");
        assert!(
            rendered(&none, Format::Env)
                .unwrap_err()
                .contains("no server is in bundle")
        );
    }
}
