//! What a worker changed is in its commit, or its task fails and says what is missing.
