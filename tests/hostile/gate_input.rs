//! The gate reads only what was typed after it was shown.
