//! A server that has one known limit, which neither HAProxy nor nginx can be given: a pool of workers, a lock, a
//! listener that accepts in bursts. `recipe` says what each of them shows.
//!
//! It runs as its own process (`cargo run -p e2e --bin fault -- ADDRESS FAULT…`), so that it can be put into a
//! control group. It answers one request of each connection (with `keep`, all), reads no bodies and ignores the method.

use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npong";
/// The answer that leaves its connection open.
const KEPT_OPEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong";
/// A client that sends no whole head for so long is given up.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);
/// A thread does next to nothing.
const STACK_BYTES: usize = 64 << 10;
/// Rounds of work after which a thread that burns CPU looks how long they took, when it is calibrated.
const ROUNDS: u64 = 200_000;
/// O_DSYNC of Linux.
const O_DSYNC: i32 = 0o10_000;
/// Bytes that are written for a request of [`Fault::WriteSync`].
const WRITTEN_BYTES: usize = 4_096;

/// Every fault, as on the command line.
pub const FAULTS: &str = "pool WORKERS MS, lock WORKERS MS, burn WORKERS MS, accept-every MS, thread-each MS, keep BYTES, \
                          bucket PER_S or write-sync FILE";

/// The limit of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A number of workers, each of which waits for this long in a request.
    Pool(usize, Duration),
    /// Workers with a lock that is held while one waits.
    Lock(usize, Duration),
    /// Workers with a lock that is held while one uses this much CPU.
    Burn(usize, Duration),
    /// One thread, which accepts and answers everything that is there once in so long.
    AcceptEvery(Duration),
    /// A thread for each connection, which waits for so long; a connection without a thread is closed.
    ThreadEach(Duration),
    /// Requests per second; the others wait.
    Bucket(u32),
    /// A thread for each connection, which answers every request and leaves this many bytes allocated for ever.
    Keep(usize),
    /// One worker, which writes to a disk for each request and waits until that is done.
    WriteSync(String),
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let ms = |word: &str| word.parse().ok().map(Duration::from_millis);
        let parsed = match words[..] {
            ["pool", workers, wait] => {
                workers.parse().ok().zip(ms(wait)).map(|(n, s)| Self::Pool(n, s))
            }
            ["lock", workers, wait] => {
                workers.parse().ok().zip(ms(wait)).map(|(n, s)| Self::Lock(n, s))
            }
            ["burn", workers, cpu] => {
                workers.parse().ok().zip(ms(cpu)).map(|(n, s)| Self::Burn(n, s))
            }
            ["accept-every", pause] => ms(pause).map(Self::AcceptEvery),
            ["thread-each", wait] => ms(wait).map(Self::ThreadEach),
            ["bucket", per_s] => per_s.parse().ok().filter(|n| *n > 0).map(Self::Bucket),
            ["keep", bytes] => bytes.parse().ok().map(Self::Keep),
            ["write-sync", file] => Some(Self::WriteSync(file.to_owned())),
            _ => None,
        };
        parsed.ok_or_else(|| format!("fault {text}: give {FAULTS}"))
    }
}

/// Serves at `address` for ever.
pub fn serve(address: SocketAddr, fault: Fault) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    match fault {
        Fault::Pool(workers, wait) => serve_by(&listener, workers, move || thread::sleep(wait)),
        Fault::Lock(workers, wait) => {
            serve_by(&listener, workers, locked(move || thread::sleep(wait)))
        }
        Fault::Burn(workers, cpu) => {
            let rounds = rounds_in(cpu);
            serve_by(&listener, workers, locked(move || _ = work(rounds)))
        }
        Fault::AcceptEvery(pause) => accept_every(&listener, pause),
        Fault::ThreadEach(wait) => thread_each(&listener, wait),
        Fault::Bucket(per_s) => bucket(&listener, per_s),
        Fault::Keep(bytes) => keep(&listener, bytes),
        Fault::WriteSync(path) => {
            let mut file =
                OpenOptions::new().create(true).append(true).custom_flags(O_DSYNC).open(&path)?;
            fs::remove_file(&path)?;
            let write = locked(move || drop(file.write_all(&[0; WRITTEN_BYTES])));
            serve_by(&listener, 1, write)
        }
    }
}

/// Returns `work` under a lock.
fn locked(work: impl FnMut() + Send + 'static) -> impl Fn() + Send + Sync + 'static {
    let work = Mutex::new(work);
    move || work.lock().unwrap_or_else(PoisonError::into_inner)()
}

/// Whatever comes is accepted at once and waits for one of the workers, each of which does `work` for a request.
fn serve_by(
    listener: &TcpListener,
    workers: usize,
    work: impl Fn() + Send + Sync + 'static,
) -> io::Result<()> {
    let (sender, accepted) = mpsc::channel();
    let (accepted, work) = (Arc::new(Mutex::new(accepted)), Arc::new(work));
    for _ in 0..workers {
        let (accepted, work) = (Arc::clone(&accepted), Arc::clone(&work));
        thread::spawn(move || {
            let next = || accepted.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok(stream) = next() {
                // The other end's errors are its own to report.
                let _ = answer(stream, &*work);
            }
        });
    }
    for stream in listener.incoming().flatten() {
        if sender.send(stream).is_err() {
            break;
        }
    }
    Ok(())
}

fn accept_every(listener: &TcpListener, pause: Duration) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut due = Instant::now();
    loop {
        // Whoever is answered comes again, and is not to be among those that wait now. A request whose handshake
        // ended when the queue was full comes seconds later: nobody waits for it.
        let waiting: Vec<TcpStream> =
            std::iter::from_fn(|| listener.accept().ok().map(|(stream, _)| stream)).collect();
        for stream in waiting {
            stream.set_nonblocking(false)?;
            let serve = move || drop(answer(stream, &|| ()));
            thread::Builder::new().stack_size(STACK_BYTES).spawn(serve)?;
        }
        due = (due + pause).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn thread_each(listener: &TcpListener, wait: Duration) -> io::Result<()> {
    for stream in listener.incoming().flatten() {
        let serve = move || drop(answer(stream, &|| thread::sleep(wait)));
        // Without a thread the closure is dropped, and the connection with it.
        let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
    }
    Ok(())
}

fn keep(listener: &TcpListener, bytes: usize) -> io::Result<()> {
    for stream in listener.incoming().flatten() {
        let serve = move || {
            // Written, so that its pages are there.
            Vec::leak(vec![1_u8; bytes]);
            drop(answer_all(stream));
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(serve)?;
    }
    Ok(())
}

/// Answers every request of a connection, until its client closes it.
fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        let bytes = stream.read(&mut piece)?;
        if bytes == 0 || head.len() > piece.len() {
            return Ok(());
        }
        head.extend_from_slice(&piece[..bytes]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(KEPT_OPEN)?;
        }
    }
}

/// Requests wait in threads that the bucket wakes at its own times.
fn bucket(listener: &TcpListener, per_s: u32) -> io::Result<()> {
    let next = Arc::new(Mutex::new(Instant::now()));
    for stream in listener.incoming().flatten() {
        let next = Arc::clone(&next);
        let wait = move || {
            let now = Instant::now();
            let due = {
                let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                *next = (*next + Duration::from_secs(1) / per_s).max(now);
                *next
            };
            thread::sleep(due.saturating_duration_since(now));
        };
        let serve = move || drop(answer(stream, &wait));
        thread::Builder::new().stack_size(STACK_BYTES).spawn(serve)?;
    }
    Ok(())
}

/// Reads a head, does `work` and answers.
fn answer(mut stream: TcpStream, work: &dyn Fn()) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HEAD_TIMEOUT))?;
    let mut head = Vec::new();
    let mut piece = [0; 4_096];
    while !head.ends_with(b"\r\n\r\n") {
        let bytes = stream.read(&mut piece)?;
        if bytes == 0 || head.len() > piece.len() {
            return Ok(());
        }
        head.extend_from_slice(&piece[..bytes]);
    }
    work();
    stream.write_all(ANSWER)
}

/// CPU work of a fixed size.
fn work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x: u64, n| black_box(x.wrapping_mul(31).wrapping_add(n)))
}

/// Returns the rounds of [`work`] that take this long on a CPU that nobody else uses: by the fastest of many tries.
fn rounds_in(cpu: Duration) -> u64 {
    let try_once = |_| {
        let began = Instant::now();
        black_box(work(ROUNDS));
        began.elapsed()
    };
    let fastest = (0..50).map(try_once).min().unwrap_or_default().max(Duration::from_nanos(1));
    (ROUNDS as f64 * cpu.as_secs_f64() / fastest.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_understood() {
        let ms = Duration::from_millis;
        for (text, fault) in [
            ("pool 8 25", Fault::Pool(8, ms(25))),
            ("lock 4 3", Fault::Lock(4, ms(3))),
            ("burn 4 3", Fault::Burn(4, ms(3))),
            ("accept-every 50", Fault::AcceptEvery(ms(50))),
            ("thread-each 200", Fault::ThreadEach(ms(200))),
            ("bucket 300", Fault::Bucket(300)),
            ("keep 20000", Fault::Keep(20_000)),
            ("write-sync x", Fault::WriteSync("x".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(fault));
        }
        for text in ["", "pool", "pool 8", "bucket 0", "lock a b"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }

    #[test]
    fn workers_answer_one_request_of_each_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve_by(&listener, 2, || ()));
        let mut stream = TcpStream::connect(address).unwrap();
        for piece in ["GET / HT", "TP/1.1\r\n\r\n"] {
            stream.write_all(piece.as_bytes()).unwrap();
        }
        let mut answered = Vec::new();
        stream.read_to_end(&mut answered).unwrap();
        assert_eq!(answered, ANSWER);
    }
}
