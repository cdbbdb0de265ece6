"""What several protocols share: reading foreign JSON, diffs, the path of frames, words for deaths.

Knows no protocol; each adapter package imports from here and never from another adapter.
"""
