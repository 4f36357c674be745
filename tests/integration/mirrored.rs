//! Arguments that calls carry in headers too, checked by a server and sent by the gateway in front of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use countersign::http::RequestHead;
use countersign::mcp::{
    Announced, Announcer, CallContext, Changes, HttpRefusal, Offer, ParamHeaders, Request,
    RpcError, RpcResult, Server, Service,
};
use countersign::world::World;

use crate::lab::{self, Caller};

const TOOL: &str = r#"{"name":"open","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
const BAD: &str = r#"{"name":"bad","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}"#;

/// Counts what is asked, by method.
#[derive(Clone, Default)]
struct Regional {
    asked: Arc<Mutex<Vec<String>>>,
    announcer: Announcer,
}

impl Service for Regional {
    type Principal = ();

    fn serves(&self, path: &str) -> bool {
        path == "/mcp"
    }

    fn admit(&self, _: &RequestHead, _: SocketAddr) -> Result<(), HttpRefusal> {
        Ok(())
    }

    fn identity<'p>(&self, (): &'p ()) -> &'p str {
        "anyone"
    }

    async fn offer(&self, (): &()) -> Offer {
        Offer {
            tools: Some(Announced(false)),
            ..Offer::default()
        }
    }

    fn asks_first(&self, (): &(), _: &str) -> bool {
        false
    }

    async fn request(
        &self,
        (): &(),
        request: &Request<'_>,
        _: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        self.asked.lock().unwrap().push(request.method.to_string());
        if request.method == "tools/list" {
            let mut result = RpcResult::default();
            result.set("tools", format!("[{TOOL},{BAD}]"));
            return Ok(result);
        }
        let headers = ParamHeaders::of_tool(serde_json::from_str(TOOL).unwrap()).unwrap();
        request.check_param_headers(&headers)?;
        Ok(RpcResult::text(request.arguments()?.get()))
    }

    fn listen(&self, (): &()) -> Changes {
        self.announcer.listen()
    }
}

fn start(world: &World) -> (Regional, SocketAddr) {
    let service = Regional::default();
    let far = Server::new(world.clone(), Arc::new(service.clone()), lab::settings());
    let far = lab::listen(world, far);
    let config = lab::config(&format!(
        "servers:\n  - {{slug: far, kind: remote-http, url: \"http://{far}/mcp\"}}\n"
    ));
    (service, lab::gateway(world, &config))
}

async fn call(world: &World, gateway: SocketAddr, headers: &[(&str, &str)]) -> String {
    let caller = Caller::connect(world, gateway).await;
    let bytes = lab::call("/mcp?servers=far", "open", r#"{"region":"Ü"}"#, headers);
    caller.send(&bytes).await;
    caller.until("}}").await
}

const SAME: (&str, &str) = ("Mcp-Param-Region", "=?base64?w5w=?=");

#[test]
fn a_call_is_passed_on_with_its_headers_and_refused_where_they_differ() {
    lab::run(|world| async move {
        let (service, gateway) = start(&world);
        let asked = || std::mem::take(&mut *service.asked.lock().unwrap());
        // Nothing is known of the tool yet: the server's list is looked at, and then the call is made, once.
        let got = call(&world, gateway, &[SAME]).await;
        assert!(
            got.starts_with("HTTP/1.1 200 ") && got.contains("Ü"),
            "{got}"
        );
        assert_eq!(asked(), ["tools/list", "tools/call"]);
        let got = call(&world, gateway, &[SAME]).await;
        assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
        assert_eq!(asked(), ["tools/call"]);
        for headers in [&[][..], &[("Mcp-Param-Region", "U")], &[SAME, SAME]] {
            let got = call(&world, gateway, headers).await;
            assert!(
                got.starts_with("HTTP/1.1 400 ") && got.contains("-32020"),
                "{got}"
            );
            assert_eq!(asked().len(), 0, "the server was asked");
        }
    });
}

#[test]
fn a_legacy_caller_needs_no_headers_and_a_bad_tool_is_left_out() {
    lab::run(|world| async move {
        let (service, gateway) = start(&world);
        let post = async |body: &str| {
            let caller = Caller::connect(&world, gateway).await;
            let request = format!(
                "POST /mcp?servers=far HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            caller.send(request.as_bytes()).await;
            caller.until("\u{0}never").await
        };
        let listed = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
        assert!(
            listed.contains(r#""open""#) && !listed.contains(r#""bad""#),
            "{listed}"
        );
        let got = post(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"open","arguments":{"region":"eu"}}}"#).await;
        assert!(got.contains("eu") && !got.contains("isError"), "{got}");
        assert_eq!(*service.asked.lock().unwrap(), ["tools/list", "tools/call"]);
    });
}
