//! The gateway over real sockets, judged by its clients.

mod support;

mod gateway {
    mod limits;
}
