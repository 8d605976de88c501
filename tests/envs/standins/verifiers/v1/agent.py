class Segment:
    terminated = False

    def __init__(self, messages):
        self.last_reply = messages[-1].content
