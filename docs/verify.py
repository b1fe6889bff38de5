#!/usr/bin/env python3
"""Checks a draw's proof, written from docs/fairness.md alone and sharing nothing with the server.

usage: verify.py proof.json        exit 0: it holds; exit 1: it does not, and why
"""

import hashlib
import hmac
import json
import sys

ALL = 1_000_000_000  # odds are parts of this


def number(seed, label, bound):
    """A number below bound, each as likely as the others."""
    turn = 0
    while True:
        message = label + b"\n" + str(turn).encode()
        word = int.from_bytes(hmac.new(seed, message, hashlib.sha256).digest()[:8], "big")
        if word < 2**64 - 2**64 % bound:
            return word % bound
        turn += 1


def table(proof):
    """Everything the draw was bound to, as text."""
    lines = [
        "tidegate draw 1",
        f"draw {proof['draw_id']}",
        f"strategy {proof['strategy']}",
        f"seats {proof['seats']}",
    ]
    for prize in proof["prizes"]:
        odds = prize.get("odds", 0)
        lines.append(f"prize {prize['id']} {prize['kind']} {odds} {prize['stock']} {prize['name']}")
    return "".join(line + "\n" for line in lines).encode()


def deck(seed, proof):
    """Which prize lies behind which seat."""
    row = list(range(1, proof["seats"] + 1))
    cards = [prize["id"] for prize in proof["prizes"] for _ in range(prize["stock"])]
    behind = {}
    for place, card in enumerate(cards):
        pick = place + number(seed, f"card\n{place}".encode(), len(row) - place)
        row[place], row[pick] = row[pick], row[place]
        behind[row[place]] = card
    return behind


def outcome(seed, proof, play, left, behind):
    """The prize this play wins, or None."""
    if proof["strategy"] == "deck":
        return behind.get(play["seat"])
    whole = proof["strategy"] == "whole"
    playing = [prize for prize in proof["prizes"] if not whole or left[prize["id"]] > 0]
    gone = sum(prize["odds"] for prize in proof["prizes"]) - sum(prize["odds"] for prize in playing)
    if ALL - gone == 0:
        return None
    label = f"play\n{play['seat']}\n{play['client_seed']}".encode()
    drawn = number(seed, label, ALL - gone)
    for prize in playing:
        if drawn < prize["odds"]:
            return prize["id"] if left[prize["id"]] > 0 else None
        drawn -= prize["odds"]
    return None


def check(proof):
    names = [proof["draw_id"]] + [prize["name"] for prize in proof["prizes"]]
    if any(ord(letter) < 32 for name in names for letter in name):
        return "a name has control characters, so that the table could be read in two ways"
    seed = bytes.fromhex(proof["seed"])
    if hashlib.sha256(seed + table(proof)).hexdigest() != proof["commitment"]:
        return "the commitment does not follow from seed and table"
    left = {prize["id"]: prize["stock"] for prize in proof["prizes"]}
    behind = deck(seed, proof) if proof["strategy"] == "deck" else {}
    seats, history = set(), bytes(32)
    for place, play in enumerate(proof["plays"], start=1):
        if play["number"] != place:
            return f"play {play['number']} stands in place {place}"
        if play["seat"] in seats or not 1 <= play["seat"] <= proof["seats"]:
            return f"play {place}: seat {play['seat']} is not free"
        seats.add(play["seat"])
        due = outcome(seed, proof, play, left, behind)
        if due != play["prize"]:
            return f"play {place}: told {play['prize']}, due {due}"
        if due is not None:
            left[due] -= 1
        line = f"{place} {play['seat']} {due or 0} {play['client_seed']}\n"
        history = hashlib.sha256(history + line.encode()).digest()
        if history.hex() != play["hash"]:
            return f"play {place}: its hash does not follow"
    if len(proof["plays"]) != proof["plays_count"] or history.hex() != proof["plays_hash"]:
        return "the plays do not end in plays_count and plays_hash"
    return None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        wrong = check(json.load(file))
    print(f"wrong: {wrong}" if wrong else "the proof holds")
    sys.exit(1 if wrong else 0)
