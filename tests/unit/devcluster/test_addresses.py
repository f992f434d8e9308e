from kraftquorum_devcluster.processnode.addresses import AddressBook


def test_address_is_stable_by_namespace_and_name():
    first, second = AddressBook(77), AddressBook(77)
    assert first.take("ns", "web-0") == second.take("ns", "web-0")
    assert first.take("ns", "web-0") == first.take("ns", "web-0")
    assert first.take("ns", "web-0") != first.take("other", "web-0")


def test_running_pods_never_share_an_address():
    book = AddressBook(80)
    addresses = [book.take("ns", f"pod-{n}") for n in range(3000)]
    assert len(set(addresses)) == 3000
    assert all(address.startswith("127.80.") for address in addresses)
    assert not any(address.startswith("127.80.0.") for address in addresses)


def test_address_is_free_again_after_it_was_given_back():
    book = AddressBook(77)
    address = book.take("ns", "a")
    book.give_back("ns", "a")
    book.give_back("ns", "a")
    assert book.take("ns", "a") == address
