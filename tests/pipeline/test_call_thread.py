"""A call that never returns is given up; one that does is as if it had been made directly."""

import threading

import pytest

from sluice_pipeline.call_thread import CallOverdueError, CallThread


def test_calls_are_made_in_order_in_one_other_thread():
    thread, made = CallThread("calls"), list[object]()

    thread.call(lambda: made.append(threading.current_thread()), 10)
    thread.call(lambda: made.append(threading.current_thread()), 10)

    assert made[0] is made[1]
    assert made[0] is not threading.current_thread()
    thread.close()


def test_what_a_call_raises_is_raised_to_its_caller():
    def fail() -> None:
        raise ValueError("no")

    thread = CallThread("calls")

    with pytest.raises(ValueError, match="no"):
        thread.call(fail, 10)
    thread.call(lambda: None, 10)
    thread.close()


def test_a_call_that_does_not_return_is_given_up_and_holds_up_no_end():
    returns = threading.Event()
    thread = CallThread("calls")

    with pytest.raises(CallOverdueError, match=r"not returned for 0\.05 s"):
        thread.call(lambda: returns.wait() and None, 0.05)

    thread.close()
    assert all(each.daemon for each in threading.enumerate() if each.name == "calls")
    returns.set()
