//! The routes of the page: itself, its document, and the stream of changes.
//!
//! [`Viewers::routes`] serves the page, `view` (the document as JSON, gzip) and `events` (server-sent events), below
//! the token if there is one. A [`Viewer`] is a position in the list of changes: [`Viewer::next`] sends the change
//! after it, or waits for one. A viewer whose position is no longer in the list gets `reset` and fetches the document
//! again. At most 16 streams are open at once. Start reading at [`Viewer::next`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::access::{Access, Refusal};
use super::document::Document;
use super::records::Next;
use super::server::{IsLocal, protected};
use super::shared::Shared;
use crate::page::live_policy;

/// Viewers at once.
const VIEWERS_MAX: usize = 16;
/// Time after which a viewer that was cut off comes again.
const RETRY: Duration = Duration::from_secs(1);
/// Time after which a proxy may take what says nothing for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The last number that a browser has seen, when it comes again by itself.
const LAST_EVENT_ID: &str = "last-event-id";

/// The state that viewers share.
#[derive(Clone, Debug)]
pub(super) struct Viewers {
    document: Shared<Document>,
    /// Identifies this process, so that a later one at the same address is not taken for it. The name of each change
    /// begins with it.
    program: u64,
    slots: Arc<Semaphore>,
}

impl Viewers {
    pub(super) fn new(document: Shared<Document>, program: u64) -> Self {
        Self { document, program, slots: Arc::new(Semaphore::new(VIEWERS_MAX)) }
    }

    /// Returns the number of viewers.
    pub(super) fn count(&self) -> usize {
        VIEWERS_MAX - self.slots.available_permits()
    }

    /// Returns the routes, for those whom `access` admits.
    pub(super) fn routes(self, access: Access) -> Router {
        let prefix = if access.token.is_some() { "/{token}" } else { "" };
        let at = |path: &str| format!("{prefix}/{path}");
        let routes = Router::new()
            .route(&at(""), get(page))
            .route(&at("view"), get(view))
            .route(&at("events"), get(events))
            .with_state(self);
        protected(Some(access), routes)
    }

    /// Returns the number of the change after which a viewer continues; a name from another process does not count.
    fn position(&self, headers: &HeaderMap, query: Option<&str>) -> u64 {
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        if let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
            let id = id.to_str().ok().and_then(|id| id.split_once('.'));
            let ours = id.filter(|(program, _)| *program == self.program.to_string());
            return ours.map_or(u64::MAX, |(_, seq)| number(seq));
        }
        let mut pairs = query.unwrap_or_default().split('&');
        pairs.find_map(|pair| pair.strip_prefix("after=")).map_or(0, number)
    }
}

async fn page(State(viewers): State<Viewers>) -> Response {
    let html = viewers.document.lock().page();
    let kind = (CONTENT_TYPE, "text/html; charset=utf-8".to_owned());
    ([kind, (CONTENT_SECURITY_POLICY, live_policy())], html).into_response()
}

async fn view(State(viewers): State<Viewers>) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CONTENT_ENCODING, "gzip")];
    match viewers.document.lock().fetch() {
        Some(Ok(json)) => (headers, json).into_response(),
        Some(Err(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "The run has not begun yet.\n").into_response(),
    }
}

async fn events(
    State(viewers): State<Viewers>,
    Extension(IsLocal(is_local)): Extension<IsLocal>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let seq = viewers.position(&headers, query.as_deref());
    if viewers.document.lock().records.after(seq) == Next::Over {
        // By the standard of server-sent events, a browser does not come again.
        return StatusCode::NO_CONTENT.into_response();
    }
    let Ok(slot) = Arc::clone(&viewers.slots).try_acquire_owned() else {
        return Refusal::Full.answer().into_response();
    };
    if is_local {
        viewers.document.lock().see_local_viewer();
    }
    let changes = viewers.document.changes();
    let viewer = Viewer { viewers, seq, changes, is_new: true, is_over: false, _slot: slot };
    let next = |mut viewer: Viewer| async move {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    };
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    (unbuffered, Sse::new(stream::unfold(viewer, next)).keep_alive(alive)).into_response()
}

/// One who looks on: a position in the list of changes.
struct Viewer {
    viewers: Viewers,
    seq: u64,
    changes: watch::Receiver<u64>,
    is_new: bool,
    is_over: bool,
    _slot: OwnedSemaphorePermit,
}

impl Viewer {
    /// Returns the next line of the stream; `None` at its end. Asked for only when the one before was written.
    async fn next(&mut self) -> Option<Event> {
        if std::mem::replace(&mut self.is_new, false) {
            return Some(Event::default().retry(RETRY));
        }
        while !self.is_over {
            self.changes.borrow_and_update();
            let next = self.viewers.document.lock().records.after(self.seq);
            match next {
                Next::Record(record) => {
                    self.seq = record.seq;
                    let id = format!("{}.{}", self.viewers.program, record.seq);
                    return Some(Event::default().id(id).event(record.event).data(&*record.data));
                }
                Next::Reset => {
                    // It comes again with the number of the document that it fetches now.
                    self.is_over = true;
                    return Some(Event::default().event("reset").data("{}"));
                }
                Next::Over => self.is_over = true,
                Next::Wait => self.is_over = self.changes.changed().await.is_err(),
            }
        }
        None
    }
}
