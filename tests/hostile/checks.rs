//! Checks judge exactly the commit that would land, in a tree made fresh from it.
