//! gRPC judged by grpcio, client and server, and messages out of JSON by the descriptors of its own compiler.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use e2e::certificate::Certificate;
use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::serve::Serve;

use crate::alone;

const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];
const PROTO: &str = "syntax = \"proto3\";\npackage shop;\n\
    message Item { string name = 1; repeated sint32 sizes = 2; map<string, bool> flags = 3; }\n\
    message Added { uint32 total = 1; }\n\
    service Cart { rpc Add(Item) returns (Added); rpc Fail(Item) returns (Added); rpc Watch(Item) returns (stream Added); }\n";
/// Prints its ports, plain and over TLS, and serves until its input ends.
const SERVER: &str = "\
import sys, grpc, shop_pb2
from concurrent import futures
def add(item, context):
    if (item.name, list(item.sizes), dict(item.flags)) != ('a', [1, -2], {'new': True}):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, 'another message: %s' % item)
    return shop_pb2.Added(total=len(item.sizes))
def fail(item, context):
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, 'no more')
def method(behaviour):
    return grpc.unary_unary_rpc_method_handler(
        behaviour, shop_pb2.Item.FromString, shop_pb2.Added.SerializeToString)
server = grpc.server(futures.ThreadPoolExecutor(4))
handlers = {'Add': method(add), 'Fail': method(fail)}
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('shop.Cart', handlers),))
pair = [open(path, 'rb').read() for path in sys.argv[1:3]]
print(server.add_insecure_port('127.0.0.1:0'))
print(server.add_secure_port('127.0.0.1:0', grpc.ssl_server_credentials([pair])), flush=True)
server.start()
sys.stdin.read()
";
/// Client whose calls `serve` must answer.
const CLIENT: &str = "\
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
echo = channel.unary_unary('/a.Service/Echo')
for message in [b'', b'hello', bytes(100000)]:
    assert echo(message, timeout=10) == message
def status(**options):
    try:
        echo(b'x', **options)
    except grpc.RpcError as error:
        return error.code()
assert status(timeout=10, metadata=[('size', 'x')]) == grpc.StatusCode.INVALID_ARGUMENT
assert status(timeout=0.2, metadata=[('sleep-fixed', '5000')]) == grpc.StatusCode.DEADLINE_EXCEEDED
calls = [echo.future(b'%d' % n, timeout=10, metadata=[('sleep', '20')]) for n in range(200)]
assert [call.result() for call in calls] == [b'%d' % n for n in range(200)]
health = channel.unary_unary('/grpc.health.v1.Health/Check')
assert health(b'', timeout=10) is not None
";

/// Returns a folder with grpcio, the programs above and what its compiler makes of the service.
fn prepared() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    if !folder.join("grpc_tools").exists() {
        let install = ["-m", "pip", "install", "--quiet", "--target", "."];
        run(python(&folder).args(install).args(PACKAGES));
    }
    let files = [("shop.proto", PROTO), ("server.py", SERVER), ("client.py", CLIENT)];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("it is writable");
    }
    let compile = ["-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--include_imports"];
    run(python(&folder).args(compile).args(["--descriptor_set_out=shop.binpb", "shop.proto"]));
    folder
}

fn python(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.current_dir(folder).env("PYTHONPATH", folder).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

#[test]
#[ignore = "installs grpcio"]
fn grpcio_takes_our_messages_and_its_status_is_judged() {
    let _alone = alone();
    let folder = prepared();
    let certificate = Certificate::new();
    let mut command = python(&folder);
    command.arg("server.py").arg(certificate.key()).arg(certificate.chain());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Guarded::start(&mut command);
    let stdout = server.child().stdout.take().expect("a pipe");
    let ports: Vec<String> =
        BufReader::new(stdout).lines().take(2).collect::<io::Result<_>>().expect("two ports");
    let descriptor = folder.join("shop.binpb").display().to_string();
    let json = r#"{"name": "a", "sizes": [1, -2], "flags": {"new": true}}"#;
    for url in [format!("http://127.0.0.1:{}", ports[0]), format!("https://127.0.0.1:{}", ports[1])]
    {
        let call = |method: &str, json: &str| {
            let flags = ["-k", "--rate", "0", "-n", "200", "-c", "2", "-m", "8", "--grpc", method];
            let body = ["--grpc-descriptor", &descriptor, "--data", json];
            Plimsoll::load(&url, &[&flags[..], &body].concat()).run()
        };
        let summary = call("shop.Cart/Add", json).summary(0);
        summary.assert_all_ok(200);
        assert_eq!(summary.counts("grpc_status").get("0"), Some(&200));
        for (method, json, status) in [("shop.Cart/Add", "{}", "3"), ("shop.Cart/Fail", json, "8")]
        {
            let summary = call(method, json).summary(99);
            summary.assert_all_failed(200, "grpc-status");
            assert_eq!(summary.counts("grpc_status").get(status), Some(&200), "{summary:?}");
        }
    }
    // A method that is in the service's description, and not in the server.
    let refused = |method: &str| {
        let flags = ["load", "http://127.0.0.1:1", "--rate", "0", "-n", "1", "--grpc", method];
        Plimsoll::new([&flags[..], &["--grpc-descriptor", &descriptor]].concat()).run()
    };
    let streaming = refused("shop.Cart/Watch");
    assert_eq!(streaming.code, Some(2));
    assert!(streaming.stderr.contains("is a streaming method"), "{}", streaming.stderr);
}

#[test]
#[ignore = "installs grpcio"]
fn grpcio_calls_serve() {
    let _alone = alone();
    let folder = prepared();
    let serve = Serve::plain();
    let address = serve.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    run(python(&folder).arg("client.py").arg(address));
}
