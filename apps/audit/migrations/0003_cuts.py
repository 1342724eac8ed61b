from django.db import migrations

# A row may go only where an entry behind it says so: the one that a cut writes before it deletes.
MAKE = """
DROP TRIGGER audit_only_grows ON audit_auditentry;
CREATE TRIGGER audit_only_grows
    BEFORE UPDATE OR TRUNCATE ON audit_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
CREATE FUNCTION audit_refuse_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM audit_auditentry
        WHERE act = 'audit.cut' AND number > OLD.number AND (after ->> 'last')::bigint >= OLD.number
    ) THEN
        RAISE EXCEPTION 'the audit log only grows: % of % is refused', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER audit_only_what_was_cut
    BEFORE DELETE ON audit_auditentry
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_deletion();
"""
REMOVE = """
DROP TRIGGER audit_only_what_was_cut ON audit_auditentry;
DROP FUNCTION audit_refuse_deletion();
DROP TRIGGER audit_only_grows ON audit_auditentry;
CREATE TRIGGER audit_only_grows
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_append_only")]

    operations = [migrations.RunSQL(MAKE, REMOVE)]
