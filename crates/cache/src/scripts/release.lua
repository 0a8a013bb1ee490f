-- ARGV[3]: token. Returns whether it was released, and whether it was published.
local entry = load()
if not holds(entry, ARGV[3]) then return {0, 0} end
local awaited = entry.awaited
entry.awaited, entry.token, entry.lease_until, entry.rate_until = 0, NONE, 0, 0
save(entry)
if awaited == 1 then publish() end
return {1, awaited}
