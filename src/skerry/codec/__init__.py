"""How objects become bytes: encoders and decoders made per type, raw pieces, frames, updates."""
