"""Where pictures come from: folders, lists, arrays, archives, public sets, all through `door.open_data`."""
