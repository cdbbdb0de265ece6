"""The switches of the fake OpenCode server: each is one way in which a server misbehaves or differs.

Owns their names and what they mean; knows nothing of how they are done.
"""

FAULTS = {
    "silent": "never says where it listens",
    "noise": "prints other lines first, and colours the one that counts",
    "exits": "exits at once, as on a port that is taken",
    "html": "answers everything with a web page",
    "locked": "refuses every request with 401",
    "drops": "cuts the event stream after each few events",
    "deaf": "sends heartbeats and no events once the first stream has begun",
    "heartless": "sends no heartbeats",
    "double_idle": "says each idle twice, whatever the end",
    "no_deltas": "tells texts whole at their end",
    "delta_first": "sends a text's deltas before its part",
    "slow_accept": "takes a second to accept a prompt",
    "loses_prompts": "accepts a prompt and begins nothing",
    "forgets": "gives up a turn in silence while the event stream is cut",
    "old": "speaks the older shapes of events and requests, and has stubs and gaps",
    "sync_only": "has no events and answers a prompt when it is over",
    "flat": "puts info, part and delta where other makes do",
}
