"""What a data set is: its questions are made up when they are asked for."""


class ProceduralDataset:
    name = ""

    def __init__(self, size, seed, config):
        self.size, self.seed, self.config = size, seed, config

    def __iter__(self):
        return (self[number] for number in range(self.size))

    def entry(self, question, answer):
        return {"question": question, "answer": answer, "metadata": {"source_dataset": self.name}}

    def score_answer(self, answer, entry):
        return float(answer == entry["answer"])
