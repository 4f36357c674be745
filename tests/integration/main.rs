//! Behaviour over real sockets, and the whole chain on a clock driven by hand.
