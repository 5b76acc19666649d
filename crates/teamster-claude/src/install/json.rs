//! JSON that somebody else wrote, changed without touching what is theirs.
//!
//! A document is scanned into nodes that know where they stand ([`scan`]); a change is made to the text at such a
//! place, in the style the text is written in ([`style`], [`edit`]). Every other byte stays.

pub(super) mod edit;
pub(super) mod scan;
pub(super) mod style;
