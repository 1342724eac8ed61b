from django.db import migrations

# Whoever owns the table can take the trigger away: it keeps our own code and accidents out, and
# the chain tells of everybody else.
MAKE = """
CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log only grows: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER audit_only_grows
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
"""
REMOVE = """
DROP TRIGGER audit_only_grows ON audit_auditentry;
DROP FUNCTION audit_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [migrations.RunSQL(MAKE, REMOVE)]
