//! From pieces of a stream to lines, in bounded memory.

/// No client sends a longer line that means anything.
pub const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// As much of a longer one is passed on: enough to show, too little to be understood.
const KEPT: usize = 64 * 1024;

/// Cuts a stream into lines, however its bytes arrive.
///
/// A line beyond [`LONGEST_LINE`] is passed on as its beginning, once, and the rest of it is dropped: a client that
/// prints without end costs no memory, and what was dropped can be no success.
#[derive(Debug, Default)]
pub struct LineSplitter {
    held: Vec<u8>,
    /// In the rest of a line that was too long.
    dropping: bool,
}

impl LineSplitter {
    /// The next bytes; `each` gets every line that they complete, with its line end.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            if self.dropping {
                self.dropping = !is_end;
            } else if is_end && self.held.is_empty() && piece.len() <= LONGEST_LINE {
                each(piece);
            } else if self.held.len() + piece.len() > LONGEST_LINE {
                self.held.extend_from_slice(&piece[..piece.len().min(KEPT)]);
                self.held.truncate(KEPT);
                each(&self.held);
                // The memory of an odd line is given back.
                self.held = Vec::new();
                self.dropping = !is_end;
            } else {
                self.held.extend_from_slice(piece);
                if is_end {
                    each(&self.held);
                    self.held.clear();
                    self.held.shrink_to(KEPT);
                }
            }
        }
    }

    /// The stream has ended: what is left is a line without its end.
    pub fn finish(self, mut each: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            each(&self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = LineSplitter::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| found.push(line.to_vec()));
        }
        lines.finish(|line| found.push(line.to_vec()));
        found
    }

    #[test]
    fn a_line_without_end_costs_no_memory_and_hides_nothing_behind_it() {
        let megabyte = vec![b'x'; 1024 * 1024];
        let mut pieces: Vec<&[u8]> = vec![b"first\n"];
        pieces.extend(std::iter::repeat_n(megabyte.as_slice(), 40));
        pieces.push(b"\nlast\n");
        let found = lines(&pieces);
        let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(lengths, [6, KEPT, 5]);
        assert_eq!(found[2], b"last\n");
        let long = vec![b'x'; 10 * 1024 * 1024];
        assert_eq!(lines(&[&long, b"\n"])[0].len(), long.len() + 1);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_arrive(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10)
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected: Vec<Vec<u8>> =
                bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            prop_assert_eq!(lines(&pieces), expected);
        }
    }
}
