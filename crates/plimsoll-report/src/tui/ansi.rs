//! Writes what has changed on a screen as the control sequences that every terminal knows.

use std::io;
use std::io::Write;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use ratatui::{Frame, Terminal};

/// Columns and rows, asked for at each frame.
pub type SizeOf = Box<dyn Fn() -> Option<(u16, u16)> + Send>;

/// A terminal of which only the size is asked. Each frame is one write.
struct Ansi<W> {
    out: W,
    colours: bool,
    size: SizeOf,
    /// Known last: a terminal that does not know its size keeps what it had.
    known: std::cell::Cell<Size>,
    frame: Vec<u8>,
}

/// A screen on a terminal.
pub struct Painter<W: Write>(Terminal<Ansi<W>>);

impl<W: Write> Painter<W> {
    /// Draws to `out`, whose size `size` says; without `colours`, marks and words alone carry the meaning.
    pub fn new(out: W, colours: bool, size: SizeOf) -> io::Result<Self> {
        let known = std::cell::Cell::new(Size::new(80, 24));
        Ok(Self(Terminal::new(Ansi { out, colours, size, known, frame: Vec::new() })?))
    }

    /// Draws what has changed since the last time.
    pub fn paint(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl<W: Write> Backend for Ansi<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next = None;
        let mut style = (Color::Reset, Modifier::empty());
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                write!(self.frame, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            next = Some((x + 1, y));
            let wanted = (if self.colours { cell.fg } else { Color::Reset }, cell.modifier);
            if style != wanted {
                style = wanted;
                self.frame.extend(b"\x1b[0");
                for code in codes(style) {
                    write!(self.frame, ";{code}")?;
                }
                self.frame.push(b'm');
            }
            self.frame.extend(cell.symbol().as_bytes());
        }
        if style != (Color::Reset, Modifier::empty()) {
            self.frame.extend(b"\x1b[0m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.frame.extend(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.frame.extend(b"\x1b[?25h");
        Ok(())
    }

    /// Returns the origin: nothing but this backend moves the cursor.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.frame, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.frame.extend(match region {
            ClearType::All => &b"\x1b[2J"[..],
            ClearType::AfterCursor => b"\x1b[J",
            ClearType::BeforeCursor => b"\x1b[1J",
            ClearType::CurrentLine => b"\x1b[2K",
            ClearType::UntilNewLine => b"\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        if let Some((width, height)) = (self.size)() {
            self.known.set(Size { width, height });
        }
        Ok(self.known.get())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.frame);
        self.frame.clear();
        written?;
        self.out.flush()
    }
}

/// Returns the parameters of "select graphic rendition". Only the sixteen colours that every theme has.
fn codes((colour, set): (Color, Modifier)) -> impl Iterator<Item = u8> {
    let colour = match colour {
        Color::Blue => Some(34),
        Color::Yellow => Some(33),
        Color::Cyan => Some(36),
        Color::DarkGray => Some(90),
        _ => None,
    };
    let modifiers = [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::REVERSED, 7)];
    colour.into_iter().chain(
        modifiers.into_iter().filter(move |(one, _)| set.contains(*one)).map(|(_, code)| code),
    )
}
