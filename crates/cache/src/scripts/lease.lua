-- ARGV[3]: token. ARGV[4]: end of freshness of the value that the caller has. ARGV[5]: duration of the lease in ms.
-- ARGV[6]: ms in which no other lease is granted. ARGV[7]: end of the caller's wait for the answer. Returns the
-- outcome; for a lease whether it was taken over from a dead holder, for a wait its end; the time; the usable entry.
local GRANTED, WAIT, VALUE = 0, 1, 2
local entry, raw = load()
if usable(entry) and now < entry.fresh_until and entry.fresh_until ~= tonumber(ARGV[4]) then
  return {VALUE, 0, now, raw}
end
local stale = usable(entry) and raw
if holds(entry, ARGV[3]) then
  return {GRANTED, 0, now, stale}
end
if now > tonumber(ARGV[7]) then return {WAIT, now, now, stale} end
local closed_until = math.max(entry.lease_until, entry.rate_until)
if now < closed_until then
  if not stale and entry.awaited == 0 then
    entry.awaited = 1
    save(entry)
  end
  return {WAIT, closed_until, now, stale}
end
local takeover = entry.token ~= NONE and 1 or 0
entry.token = ARGV[3]
entry.lease_until = now + tonumber(ARGV[5])
entry.rate_until = now + tonumber(ARGV[6])
save(entry)
return {GRANTED, takeover, now, stale}
