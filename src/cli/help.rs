//! What `--help` says.

pub(super) const ALL: &str = "\
countersign makes a person sign off before an MCP tool acts.

usage: countersign COMMAND [OPTION…]

  demo                         everything on loopback, no configuration needed
  serve    --config FILE       every part that FILE configures, in one process
  gateway  --config FILE       only the gateway
  bundle   --config FILE --bundle NAME
                               only that bundle's mounts
  desk     --config FILE       only the desk, where people answer
  standalone --config FILE [--servers a,b]
                               its tools on standard input and output
  check    --config FILE       validate, without the network; a table of every tool
  render   --config FILE --bundle NAME [--format env|compose]
                               the environment of that bundle's container
  freeze | thaw [--gateway URL]
                               stop every tool that asks a person, until thawed
  health   [--config FILE]     whether a gateway lives, for container health checks
  tools    URL                 list a server's tools
  call     URL TOOL [JSON]     call a tool
  pending  --desk URL          the questions that wait for you
  accept   [ID] --desk URL     answer yes from a terminal
  decline  [ID] --desk URL     answer no
  session new --config FILE NAME
                               mint a desk session URL for a caller
  token new [--id NAME]        mint a caller token, and its sha256 for the configuration

countersign COMMAND --help says more. Exit codes: 0 done; 1 refused, declined, expired or failed;
2 wrong usage or configuration.";

pub(super) const DEMO: &str = "\
usage: countersign demo [--answer accept|decline] [--port N]

Makes a scratch folder with a few files, serves list_files and delete_file (which asks a person) through a
gateway, a bundle and a desk on loopback, and calls delete_file. Answer on the page whose address is printed,
or from a second terminal.

  --answer accept|decline   answer by the desk's own API, print `deleted NAME` or `declined; NAME kept`, exit
  --port N                  the gateway's port; default: a free one

On a terminal it goes on serving after the outcome, for your own MCP client, until Ctrl-C.";

pub(super) const SERVE: &str = "\
usage: countersign serve|gateway|desk --config FILE
       countersign bundle --config FILE --bundle NAME

Serves until SIGTERM or Ctrl-C: then nothing new is taken, waiting calls end as cancelled, and what acts has
timing.drainMs to end; a second signal ends it at once. SIGHUP reads FILE and the certificates anew: a wrong FILE is
refused whole. `serve` runs the gateway with its bundles inside, and the desk if FILE has one.
A bundle with a `url` in FILE runs in a process of its own, by `bundle`.";

pub(super) const STANDALONE: &str = "\
usage: countersign standalone --config FILE [--servers a,b]

Serves the servers of FILE, or those named, to the one client at the other end of standard input and output, until its
end: for clients that start their servers themselves. Whoever starts it may use them all. There is nobody to ask over a
channel here, so that tools which ask over one refuse. The log goes to standard error.";

pub(super) const RENDER: &str = "\
usage: countersign render --config FILE --bundle NAME [--format env|compose]

Writes the environment that the container of that bundle needs: every variable of its servers, bare and under its slug's
prefix. `env`, the default, is a file of NAME=VALUE lines with the values of now, which are credentials: write it where
nobody else reads. `compose` is a service whose references are filled in by compose.";

pub(super) const FREEZE: &str = "\
usage: countersign freeze|thaw [--gateway URL] [--token-file FILE]

freeze stops every tool that asks a person: new calls are refused, and a yes to one that waits acts for nobody. thaw lets
them ask again; so does a restart. URL is where the gateway is administered, http://127.0.0.1:8602 by default. A token with
the role admin comes from COUNTERSIGN_TOKEN or FILE.";

pub(super) const HEALTH: &str = "\
usage: countersign health [--config FILE]

Asks the gateway on this machine whether it lives, where gateway.adminListen of FILE says, or on 127.0.0.1:8602. Prints ok
and exits 0, or says why not and exits 1.";

pub(super) const CHECK: &str = "\
usage: countersign check --config FILE [--strict]

Validates FILE without touching the network, and prints every tool: asked or not, of whom, by what.

  --strict   unset secrets and warnings fail too";

pub(super) const TOOLS: &str = "\
usage: countersign tools URL [--servers a,b] [--protocol VERSION] [--json]

Lists the tools of the MCP server at URL. The token is read from COUNTERSIGN_TOKEN or --token-file FILE
(`-`: standard input).";

pub(super) const CALL: &str = "\
usage: countersign call URL TOOL [JSON] [OPTION…]

Calls TOOL with the arguments JSON (default {}). A call that waits for a person says so. Ctrl-C drops it.

  --servers a,b         name servers behind a gateway
  --protocol VERSION    2025-03-26, 2025-06-18, 2025-11-25 or 2026-07-28; default: the newest that both speak
  --timeout SECONDS     give up after that long; default 600
  --json                print the whole result
  --token-file FILE     else COUNTERSIGN_TOKEN; `-`: standard input
  --channel-file FILE   the approval URL to ask, else COUNTERSIGN_CHANNEL; `-`: standard input";

pub(super) const ANSWER: &str = "\
usage: countersign pending --desk URL [--json]
       countersign accept|decline [ID] --desk URL

Without ID the one pending question is answered; with several, ID is needed. Your key is read from
COUNTERSIGN_KEY or --key-file FILE (`-`: standard input).";

pub(super) const SESSION: &str = "\
usage: countersign session new --config FILE NAME

Prints the desk's session URL for a caller, to be sent as X-Elicitation-Url. It is a credential: who has it can
raise questions on that session, and cannot answer them.";

pub(super) const TOKEN: &str = "\
usage: countersign token new [--id NAME]

Prints a new token once, and the lines for gateway.tokens in the configuration. The same works for the keys of
desk.people.";
