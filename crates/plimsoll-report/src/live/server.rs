//! The HTTP server: connections, routes, headers. One task for each connection, all in one thread.
//!
//! [`serve`] accepts connections until `closing` is set; [`Connections`] bounds their number, and [`answer`] runs one
//! of them over hyper. [`protected`] surrounds the routes with two layers: the inner one refuses requests that [`Access`]
//! does not admit, and the outer one adds security headers to every answer. A head and unread output are bounded by 64
//! KiB per connection, and [`Patience`] has the time limits. Start reading at [`serve`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::access::{Access, Refusal};
use super::connections::{Connections, Doing, Mark, Patience, Place, Read};
use super::figures::Figures;
use super::shared::Shared;
use crate::metrics::CONTENT_TYPE as METRICS;

/// The longest head, and the most that is buffered for somebody who does not read.
const BUFFER_BYTES: usize = 64 << 10;
/// A system that has no descriptor left is asked again after this.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// `true` if a request comes from this host.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsLocal(pub(super) bool);

impl IsLocal {
    fn of(stream: &TcpStream) -> Self {
        let ip = |address: io::Result<SocketAddr>| address.ok().map(|at| at.ip().to_canonical());
        let (peer, own) = (ip(stream.peer_addr()), ip(stream.local_addr()));
        Self(peer.is_some_and(|peer| peer.is_loopback() || Some(peer) == own))
    }
}

/// Returns the routes of a scraper. On loopback `access` has the rules of the page, since a browser of this host
/// reaches that for any site; elsewhere a scraper asks under whatever name its configuration has.
pub(super) fn metrics(figures: Shared<Figures>, access: Option<Access>) -> Router {
    let routes =
        Router::new().route("/metrics", get(scrape)).route("/", get(scrape)).with_state(figures);
    protected(access, routes)
}

/// Restricts the routes to requests that `access` admits, if there is one, and adds to every answer, refusals too,
/// headers against storing, framing, sniffing and referrers.
pub(super) fn protected(access: Option<Access>, routes: Router) -> Router {
    let routes = routes.fallback(async || Refusal::NotFound.answer());
    let routes = match access {
        Some(access) => routes.layer(from_fn_with_state(Arc::new(access), admit)),
        None => routes,
    };
    routes.layer(from_fn(protect))
}

async fn admit(State(access): State<Arc<Access>>, request: Request, rest: Next) -> Response {
    let checked = access.check(request.method(), request.headers());
    let is_open = access.is_open(request.uri().path());
    match checked.and(if is_open { Ok(()) } else { Err(Refusal::NotFound) }) {
        Ok(()) => rest.run(request).await,
        Err(refusal) => refusal.answer().into_response(),
    }
}

async fn scrape(State(figures): State<Shared<Figures>>) -> Response {
    ([(CONTENT_TYPE, METRICS)], figures.scrape()).into_response()
}

async fn protect(request: Request, rest: Next) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let mut response = rest.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // An answer without its own policy is no page: it may load nothing, and no page may frame it.
    let strict = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(strict);
    response
}

/// Answers requests on `listener` until `closing` is set, and then completes open requests.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    patience: Patience,
    mut closing: watch::Receiver<bool>,
) {
    let (connections, mut tasks) = (Connections::new(patience), JoinSet::new());
    loop {
        let accepted = async {
            let (stream, _) = listener.accept().await?;
            Ok::<_, io::Error>((stream, connections.place().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        while tasks.try_join_next().is_some() {}
        let Ok((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        tasks.spawn(answer(stream, place, router.clone(), patience, closing.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection. A client that closes it, or sends an invalid request, affects no other client.
async fn answer(
    stream: TcpStream,
    place: Place,
    router: Router,
    patience: Patience,
    mut closing: watch::Receiver<bool>,
) {
    let router = router.layer(Extension(IsLocal::of(&stream)));
    let router = router.layer(from_fn_with_state(place.mark.clone(), note));
    let stream = TokioIo::new(Read::new(stream, patience.unread));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.next)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(stream, TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = place.is_over() => return,
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Notes what a connection does, by which it is decided who makes room for others.
async fn note(State(mark): State<Mark>, request: Request, rest: Next) -> Response {
    mark.set(Doing::Asked);
    let response = rest.run(request).await;
    if response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
        mark.set(Doing::Looks);
    }
    response
}
