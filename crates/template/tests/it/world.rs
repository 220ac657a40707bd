//! What comes from outside: the values of the host, chance, the clock.
